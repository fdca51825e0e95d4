"""librdkafka (through confluent-kafka) as a client of a test broker: topics, records, offsets."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from tests.kafka.transaction_state import has_ended

# Waiting costs nothing where what is waited for comes; a busy machine may take long.
_SECONDS = 90


class Record(NamedTuple):
    """A record to produce, or one consumed."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


class Placed(NamedTuple):
    """A record that was consumed, and where it stood."""

    offset: int
    record: Record


def _library() -> Any:
    """Imported late, so that tests without a broker need no client; Any, as its types do not hold."""
    import confluent_kafka.admin

    return confluent_kafka


class Librdkafka:
    """Time-outs everywhere: a broker can be started and serve nothing."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create_topic(
        self,
        name: str,
        config: Mapping[str, str] | None = None,
        *,
        partitions: int = 1,
        replicas: Sequence[int] | None = None,
    ) -> None:
        """Create a topic of one replica, or on these nodes, and wait until its partitions have a leader."""
        placed = {"replication_factor": 1} if replicas is None else {"replica_assignment": [list(replicas)]}
        if replicas is not None and partitions != 1:
            raise ValueError("nodes are named for one partition only")
        topic = _library().admin.NewTopic(
            name, num_partitions=partitions, config=dict(config or {}), **placed
        )
        _results(self._admin.create_topics([topic], operation_timeout=_SECONDS))
        self._wait_for_leaders(name, partitions)

    def delete_topic(self, name: str) -> None:
        _results(self._admin.delete_topics([name], operation_timeout=_SECONDS))

    def create_partitions(self, name: str, total: int) -> None:
        _results(self._admin.create_partitions([_library().admin.NewPartitions(name, total)]))

    def alter_config(self, topic: str, config: Mapping[str, str]) -> None:
        """Set some configs of a topic; the others stay."""
        self._alter(_library().admin.ResourceType.TOPIC, topic, config)

    def alter_broker(self, node: int, config: Mapping[str, str]) -> None:
        """Set some configs of a broker while it runs; the others stay."""
        self._alter(_library().admin.ResourceType.BROKER, str(node), config)

    def _alter(self, kind: Any, name: str, config: Mapping[str, str]) -> None:
        entries = [
            _library().admin.ConfigEntry(
                key, value, incremental_operation=_library().admin.AlterConfigOpType.SET
            )
            for key, value in config.items()
        ]
        resource = _library().admin.ConfigResource(kind, name, incremental_configs=entries)
        _results(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> None:
        """Move the log start to this offset."""
        _results(self._admin.delete_records([_library().TopicPartition(topic, partition, before_offset)]))

    def delete_group(self, group: str) -> None:
        _results(self._admin.delete_consumer_groups([group]))

    def produce(self, topic: str, records: Iterable[Record], *, partition: int = 0, **config: object) -> None:
        """Send all records in as few batches as librdkafka makes; `config` with `_` for `.`."""
        self.produce_steps(topic, [list(records)], partition=partition, **config)

    def produce_steps(
        self, topic: str, steps: Sequence[Sequence[Record]], *, partition: int = 0, **config: object
    ) -> None:
        """Send each step by itself with one producer: one batch for each step if it is small."""
        producer = self._producer(config)
        for step in steps:
            for record in step:
                self._send(producer, topic, partition, record)
            _flushed(producer)

    def transaction(
        self,
        topic: str,
        steps: Sequence[Sequence[Record]],
        *,
        transactional_id: str,
        commit: bool | None,
        partition: int = 0,
        **config: object,
    ) -> None:
        """One transaction of several batches: committed, aborted, or (None) left open.

        When it returns, the markers are in the log. One that is left open does not run out meanwhile.
        """
        timed = {"transaction_timeout_ms": 600_000, **config}
        producer = self.transactional_producer(transactional_id, **timed)
        producer.begin_transaction()
        for step in steps:
            for record in step:
                self._send(producer, topic, partition, record)
            _flushed(producer)
        if commit is not None:
            self.end_transaction(producer, transactional_id, commit=commit)

    def transactional_producer(self, transactional_id: str, **config: object) -> Any:
        """A producer of librdkafka's own that may begin a transaction."""
        producer = self._producer({"transactional_id": transactional_id, **config})
        producer.init_transactions(_SECONDS)
        return producer

    def end_transaction(self, producer: Any, transactional_id: str, *, commit: bool) -> None:
        """End what it has begun, and wait until the markers are in the log."""
        (producer.commit_transaction if commit else producer.abort_transaction)(_SECONDS)
        wait_for_markers(self.bootstrap, transactional_id)

    def consume(
        self, topic: str, count: int, *, partition: int = 0, offset: int = 0, **config: object
    ) -> list[Record]:
        """The next `count` records from this offset; TimeoutError if they do not come."""
        settings = {"group.id": "kafkatool-tests", "enable.auto.commit": False, **_dotted(config)}
        consumer = _library().Consumer({**self._common(), **settings})
        try:
            consumer.assign([_library().TopicPartition(topic, partition, offset)])
            return _poll(consumer, count)
        finally:
            consumer.close()

    def consume_all(self, topic: str, partitions: Sequence[int], **config: object) -> dict[int, list[Placed]]:
        """Every record of these partitions, with its offset, up to where each of them ends now."""
        settings = {"group.id": "kafkatool-tests", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = _library().Consumer({**self._common(), **settings, **_dotted(config)})
        try:
            consumer.assign([_library().TopicPartition(topic, number, 0) for number in partitions])
            return _poll_to_the_ends(consumer, partitions)
        finally:
            consumer.close()

    def run_group(self, group: str, topics: Sequence[str], count: int, **config: object) -> list[Record]:
        """Join a group (`group_protocol="consumer"` for the new protocol), read, commit, leave."""
        settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = _library().Consumer({**self._common(), **settings, **_dotted(config)})
        try:
            consumer.subscribe(list(topics))
            records = _poll(consumer, count)
            consumer.commit(asynchronous=False)
            return records
        finally:
            consumer.close()

    def placement(self, topic: str, partition: int = 0) -> tuple[int, set[int]] | None:
        """The leader (-1: none) and the replicas in sync; None: the broker that answers knows of none yet."""
        known = self._admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions.get(partition)
        return None if known is None else (known.leader, set(known.isrs))

    def elect_unclean(self, topic: str, partition: int = 0) -> None:
        """Let a replica lead that may lack committed records."""
        kind = _library().ElectionType.UNCLEAN
        future = self._admin.elect_leaders(kind, [_library().TopicPartition(topic, partition)])
        for error in future.result(_SECONDS).values():
            if error is not None:
                raise RuntimeError(str(error))

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The high watermark."""
        return self.watermarks(topic, [partition])[partition][1]

    def watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """By partition: its log start and its high watermark."""
        consumer = _library().Consumer({**self._common(), "group.id": "kafkatool-tests"})
        try:
            places = {number: _library().TopicPartition(topic, number) for number in partitions}
            return {
                number: _answered(partial(consumer.get_watermark_offsets, place, timeout=_SECONDS))
                for number, place in places.items()
            }
        finally:
            consumer.close()

    def offsets_for_times(self, topic: str, times_ms: Sequence[int]) -> list[int | None]:
        """For each time the first offset at or after it; None where there is none."""
        partition = _library().TopicPartition
        consumer = _library().Consumer({**self._common(), "group.id": "kafkatool-tests"})
        try:
            # A request holds a partition only once, so there is one for every time.
            found = [
                _answered(partial(consumer.offsets_for_times, [partition(topic, 0, at)], timeout=_SECONDS))[
                    0
                ].offset
                for at in times_ms
            ]
            return [offset if offset >= 0 else None for offset in found]
        finally:
            consumer.close()

    def close(self) -> None:
        self.__dict__.pop("_admin", None)

    def _common(self) -> dict[str, object]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 30_000}

    @cached_property
    def _admin(self) -> Any:
        # Kept: an admin that is collected takes its unfinished requests with it.
        return _library().admin.AdminClient(self._common())

    def _producer(self, config: Mapping[str, object]) -> Any:
        settings = {"linger.ms": 200, "message.timeout.ms": 60_000, "enable.idempotence": True}
        return _library().Producer({**self._common(), **settings, **_dotted(config)})

    def _send(self, producer: Any, topic: str, partition: int, record: Record) -> None:
        extra = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        headers = [(name, value) for name, value in record.headers]
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=partition,
            headers=headers,
            on_delivery=_delivered,
            **extra,
        )

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition to leader, -1 where there is none."""
        known = self._admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
        return {number: partition.leader for number, partition in known.items()}

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        def all_led() -> bool:
            known = self._admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
            return len(known) == partitions and all(part.leader >= 0 for part in known.values())

        wait_until(all_led, f"leaders of {topic}")


def wait_until(condition: Callable[[], bool], what: str, seconds: float = _SECONDS) -> None:
    """Poll until it holds; TimeoutError names what did not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.05)


def wait_for_markers(bootstrap: str, transactional_id: str) -> None:
    """Wait until a transaction that was committed or aborted has ended on the broker too."""
    wait_until(lambda: has_ended(bootstrap, transactional_id), f"the markers of {transactional_id}")


def _dotted(config: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in config.items()}


def _results(futures: Mapping[object, Any]) -> None:
    for future in futures.values():
        future.result(_SECONDS)


def _delivered(error: object, _message: object) -> None:
    if error is not None:
        raise RuntimeError(f"not delivered: {error}")


def _answered(ask: Callable[[], Any]) -> Any:
    """What a broker answers; one that has only just started may not know yet that it leads."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return ask()
        except _library().KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _flushed(producer: Any) -> None:
    if left := producer.flush(_SECONDS):
        raise TimeoutError(f"{left} records were not delivered")


def _poll(consumer: Any, count: int) -> list[Record]:
    records: list[Record] = []
    deadline = time.monotonic() + _SECONDS
    while len(records) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(records)} of {count} records came")
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error():
            with contextlib.suppress(AttributeError):
                if message.error().retriable() or not message.error().fatal():
                    continue
            raise RuntimeError(str(message.error()))
        records.append(_record(message))
    return records


def _record(message: Any) -> Record:
    return Record(message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])


def _poll_to_the_ends(consumer: Any, partitions: Sequence[int]) -> dict[int, list[Placed]]:
    found: dict[int, list[Placed]] = {number: [] for number in partitions}
    open_ended = set(partitions)
    deadline = time.monotonic() + _SECONDS
    while open_ended:
        if time.monotonic() > deadline:
            raise TimeoutError(f"partitions {sorted(open_ended)} did not come to an end")
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()].append(Placed(message.offset(), _record(message)))
        elif message.error().code() == _library().KafkaError._PARTITION_EOF:
            open_ended.discard(message.partition())
    return found
