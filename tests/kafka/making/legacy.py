"""Magic 0 and 1 by Kafka's own builder of 3.9, laid under a broker that loads, indexes and cleans them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.java_client import JavaServant
from tests.kafka.librdkafka import Record
from tests.kafka.making.cases import write_case
from tests.kafka.making.logs import START_MS, create, short, small_segments, wait_until_cleaned

_CODECS = ("none", "gzip", "snappy", "lz4")
_RECORDS: list[tuple[bytes | None, bytes | None]] = [
    (b"key", b"first value, first value"),
    (None, b"second value"),
    (b"", None),
    (b"key", b""),
    (None, None),
]


class LegacyBuilder:
    """Asks the record builder of the 3.9 client for one message set."""

    def __init__(self) -> None:
        self._servant = JavaServant(peers.OLDEST, "Legacy.java")

    def build(
        self,
        magic: int,
        codec: str,
        offset: int,
        records: Sequence[tuple[bytes | None, bytes | None]],
        *,
        append_time: int | None = None,
        **options: Any,
    ) -> bytes:
        """The bytes of one wrapper, or of one message for each record if nothing compresses them."""
        rows = [
            [START_MS + 10 * number, _text(key), _text(value)] for number, (key, value) in enumerate(records)
        ]
        built = self._servant.call(
            "build", magic=magic, codec=codec, offset=offset, appendTime=append_time, records=rows, **options
        )
        return base64.b64decode(built)

    def close(self) -> None:
        self._servant.close()


def make_legacy(version: str) -> None:
    """Lay the logs under a broker of this release after an unclean stop; keep what it makes of them."""
    builder = LegacyBuilder()
    logs = dict(_logs(builder))
    builder.close()
    compacted = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        **small_segments(version, 400),
    }
    with Broker(version) as broker:
        for topic in logs:
            create(broker, topic, compacted if topic == "compacted" else {"index.interval.bytes": "100"})
        broker.stop()
        for topic, data in logs.items():
            _lay_under(broker, topic, data)
        broker.start()
        broker.client.produce_steps("compacted", [[Record(b"new", b"magic 2", (), START_MS)]] * 8)
        wait_until_cleaned(broker, "compacted")
        broker.stop()
        origin = (
            f"Message sets of magic 0 and 1 by MemoryRecords.builder of the {peers.OLDEST} client, laid "
            f"under an Apache Kafka {version} broker (KRaft, one node) after an unclean stop; it recovered "
            "them, rebuilt their indexes, and was stopped cleanly.\n\n"
            "Regenerate with `python -m tests.kafka.make_fixtures legacy`."
        )
        if version == peers.NEWEST:
            for topic in logs:
                write_case("legacy", topic, [broker.log_dir / f"{topic}-0"], origin)
        else:
            topics = ("mixed", "compacted")
            folders = [broker.log_dir / f"{topic}-0" for topic in topics]
            write_case("legacy", f"loaded-{short(version)}", folders, origin)


def _lay_under(broker: Broker, topic: str, data: bytes) -> None:
    """Everything but partition.metadata is replaced: its topic id must match the metadata log."""
    folder = broker.log_dir / f"{topic}-0"
    for path in folder.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    (folder / "00000000000000000000.log").write_bytes(data)
    (broker.log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    # Without a recovery point every segment is scanned again.
    (broker.log_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)


def _logs(builder: LegacyBuilder) -> Iterator[tuple[str, bytes]]:
    for magic in (0, 1):
        for codec in _CODECS:
            first = builder.build(magic, codec, 0, _RECORDS)
            yield f"magic{magic}-{codec}", first + builder.build(magic, codec, 5, _RECORDS[:2])
    append = builder.build(1, "none", 0, _RECORDS[:2], append_time=START_MS + 500)
    append += builder.build(1, "gzip", 2, _RECORDS, append_time=START_MS + 501)
    yield "append-time", append
    yield "mixed", _mixed(builder)
    yield "compacted", _to_be_compacted(builder)


def _mixed(builder: LegacyBuilder) -> bytes:
    """All magics in one file, as in a log that outlived several upgrades."""
    parts = [
        builder.build(0, "none", 0, _RECORDS[:2]),
        builder.build(0, "snappy", 2, _RECORDS),
        builder.build(1, "none", 7, _RECORDS[:1]),
        builder.build(1, "lz4", 8, _RECORDS, step=3),
        builder.build(1, "gzip", 21, _RECORDS[:2], innerMagic=0),
        builder.build(2, "none", 23, _RECORDS),
        builder.build(2, "zstd", 28, _RECORDS[:3]),
    ]
    return b"".join(parts)


def _to_be_compacted(builder: LegacyBuilder) -> bytes:
    keyed = [(b"k%d" % (number % 4), b"value %d" % number) for number in range(12)]
    parts = [
        builder.build(0, "none", 0, keyed[:4]),
        builder.build(0, "gzip", 4, keyed[4:9]),
        builder.build(1, "none", 9, keyed[:4]),
        builder.build(1, "lz4", 13, keyed),
        builder.build(1, "snappy", 25, [*keyed[:3], (b"k0", None)]),
    ]
    return b"".join(parts)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
