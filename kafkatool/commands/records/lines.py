"""Records as lines of NDJSON, quickly: exactly the text of `ndjson(visible_row(...))`.

In a row only offset, time, key, value, headers and sizes belong to the single record. What all records of a
batch share is formatted once per batch, and no object is created that a line does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from json.encoder import encode_basestring as quoted
from typing import NamedTuple

from kafkatool.commands.records.reading import visible_row
from kafkatool.commands.rows.batches import LogPlace
from kafkatool.commands.screen.values import BytesFormat, bytes_json, ndjson_encoder
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.records.stream import RecordPiece
from kafkatool.format.legacy import LegacyHeader
from kafkatool.format.record import Record

_WORDS = ("false", "true")


class _Shared(NamedTuple):
    """What all records of a batch share, split around the parts of a single record."""

    after_time: str
    sequence: str | None
    after_sequence: str
    after_sizes: str


class RecordLines:
    """Formats lines for one run of a command."""

    def __init__(self, how: BytesFormat) -> None:
        self._encode = ndjson_encoder(how)
        self._text = self._writer_of_bytes(how)

    def text(
        self, place: LogPlace, piece: RecordPiece, records: Iterable[tuple[int, Batch, Record]]
    ) -> bytes:
        """Return one line for each of these records."""
        front = self._front(place)
        write, judged = self._text, piece.judged
        above, below = judged.above_high_watermark.tolist(), judged.below_log_start.tolist()
        shared: dict[int, _Shared] = {}
        lines = []
        for row, batch, (offset, time, sequence, _bits, key, value, headers) in records:
            common = shared.get(batch.position)
            if common is None:
                common = shared[batch.position] = self._shared(place, piece, row, batch)
            after_time, null, after_sequence, after_sizes = common
            key_size, value_size = -1 if key is None else len(key), -1 if value is None else len(value)
            lines.append(
                f'{front}{offset},"timestamp_ms":{time}{after_time}{write(key)},"value":{write(value)},'
                f'"headers":{self._encode(headers) if headers else "[]"},"sequence":{null or sequence}'
                f'{after_sequence}{key_size},"value_size":{value_size}{after_sizes}'
                f'{_WORDS[above[row]]},"below_log_start":{_WORDS[below[row]]}}}\n'
            )
        return "".join(lines).encode("utf-8", "backslashreplace")

    def _front(self, place: LogPlace) -> str:
        start = self._encode({"kind": "record", "topic": place.topic, "partition": place.partition})
        return start[:-1] + ',"offset":'

    def _shared(self, place: LogPlace, piece: RecordPiece, row: int, batch: Batch) -> _Shared:
        """Cut the shared parts out of the whole row of a record that is empty itself."""
        nothing = Record(0, 0, 0, 0, None, None, ())
        found = self._encode(visible_row(place, piece, row, batch, nothing))
        after_time = found[found.index(',"timestamp_type"') : found.index("null", found.index('"key":'))]
        after_sequence = found[found.index(',"batch_position"') : found.index('-1,"value_size"')]
        after_sizes = found[found.index(',"producer_id"') : found.rindex('"above_high_watermark":')]
        return _Shared(
            after_time,
            "null" if isinstance(batch.header, LegacyHeader) else None,
            after_sequence,
            after_sizes + '"above_high_watermark":',
        )

    def _writer_of_bytes(self, how: BytesFormat) -> Callable[[bytes | None], str]:
        def as_json(raw: bytes | None) -> str:
            return "null" if raw is None else self._encode(bytes_json(raw, how))

        def as_text(raw: bytes | None) -> str:
            if raw is None:
                return "null"
            try:
                return quoted(raw.decode())
            except UnicodeDecodeError:
                return as_json(raw)

        return as_text if how is BytesFormat.utf8 else as_json
