"""Quick lines of NDJSON are the very text of the rows that they stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkatool.commands.records.lines import RecordLines
from kafkatool.commands.records.reading import visible_row
from kafkatool.commands.rows.batches import LogPlace
from kafkatool.commands.screen.values import BytesFormat, ndjson
from kafkatool.engine.records.stream import RecordPiece, RecordStream, records_of
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message
from tests.engine.transaction_logs import LogMaker, subject_of, write_logs
from tests.fixtures_of_logs import LOG_DIRECTORIES
from tests.logs import GUEST


def _compare(directory: Path, how: BytesFormat) -> int:
    count = 0
    quick = RecordLines(how)
    for piece in RecordStream(subject_of(directory), GUEST).pieces():
        if not isinstance(piece, RecordPiece):
            continue
        rows = piece.columns.batch.argsort(kind="stable")
        place = LogPlace.of(piece.log.path, GUEST)
        lines = quick.text(place, piece, records_of(piece, rows)).decode().split("\n")
        wanted = [
            ndjson(visible_row(place, piece, row, batch, record), how)
            for row, batch, record in records_of(piece, rows)
        ]
        assert lines == [*wanted, ""]
        count += len(wanted)
    return count


@pytest.mark.parametrize("how", list(BytesFormat))
def test_odd_keys_values_and_headers_are_written_alike(tmp_path: Path, how: BytesFormat) -> None:
    odd = [None, b"", b'"quoted" \\ ', b"\x00\x1f\x7f", b"\xff\xfe", "ä漢🙂\u2028".encode(), b"null", b"-1"]
    records = [
        NewRecord(key, value, 5, [(b"null", key), (b"a", value)] if key else [])
        for key in odd
        for value in odd
    ]
    log = LogMaker(bytearray(write_message(0, b"a", None, magic=0) + write_message(1, None, b"b")), 2)
    log.txn(3).abort(3).txn(4)
    log.data += write_batch(records, base_offset=log.offset, producer_id=9, producer_epoch=2, base_sequence=7)
    directory = write_logs(tmp_path, {0: bytes(log.data)}, high_watermark=6, log_start=1)
    assert _compare(directory, how) == 5 + len(records)


@pytest.mark.parametrize("directory", LOG_DIRECTORIES[::5], ids=lambda path: "/".join(path.parts[-3:]))
def test_logs_of_a_broker_are_written_alike(directory: Path) -> None:
    _compare(directory, BytesFormat.utf8)
