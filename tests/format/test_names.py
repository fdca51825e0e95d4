from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.format.java_text import parse_int, parse_long
from kafkatool.format.names import (
    DirectoryState,
    FileState,
    PartitionDirectory,
    RemoteIndexName,
    SnapshotName,
    base_offset,
    parse_partition_directory,
    parse_remote_index_name,
    parse_snapshot_name,
    partition_directory,
    segment_file,
    snapshot_file,
    split_state,
    topic_problem,
)

UNIQUE = "0123456789abcdef0123456789abcdef"
names = st.text(max_size=30) | st.from_regex(r"[a-z.-]{0,8}-[0-9]{0,3}(\.[a-z.-]{0,5})?(-delete|-stray)?")
topics = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True)


@given(names)
def test_any_name_is_read_or_refused(name: str) -> None:
    parse_partition_directory(name)
    parse_snapshot_name(name)
    parse_remote_index_name(name)
    base_offset(name)
    assert name.startswith(split_state(name)[0])
    topic_problem(name)


@given(topics, st.integers(0, 2**31 - 1), st.sampled_from(DirectoryState))
def test_a_directory_name_comes_back_with_as_much_of_the_topic_as_fits(
    topic: str, partition: int, state: DirectoryState
) -> None:
    unique = None if state is DirectoryState.LIVE else UNIQUE
    name = partition_directory(PartitionDirectory(topic, partition, state, unique))
    read = parse_partition_directory(name)
    if read is None:  # `a-delete` with partition 0 is fine, but a topic may also end the name like a suffix
        pytest.fail(name)
    assert read._replace(topic=topic) == PartitionDirectory(topic, partition, state, unique)
    assert topic.startswith(read.topic)
    assert read.topic == topic or read.may_be_cut(name)
    if state in (DirectoryState.DELETE, DirectoryState.STRAY):
        assert len(name) <= 255


# Each was read by LocalLog.parseTopicPartitionName of Kafka 4.3.
@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("orders-0", "orders", 0),
        ("a.b-c-12", "a.b-c", 12),
        ("foo--1", "foo-", 1),
        ("foo-+1", "foo", 1),
        ("foo-007", "foo", 7),
        ("a-delete-0", "a-delete", 0),
        (f"a.b-3.{UNIQUE}-delete", "a.b", 3),
        ("a-0.x-stray", "a", 0),
        ("a-٣", "a", 3),
    ],
)
def test_a_partition_name_is_read_as_a_broker_reads_it(name: str, topic: str, partition: int) -> None:
    read = parse_partition_directory(name)
    assert read is not None
    assert (read.topic, read.partition) == (topic, partition)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "-0",
        "a-",
        "a-x",
        "a-2147483648",
        "a-delete",
        "a-0-delete",
        "a-0.-delete",
        "a b-0.x-stray",
    ],
)
def test_a_name_that_stops_a_broker_is_none(name: str) -> None:
    assert parse_partition_directory(name) is None


@pytest.mark.parametrize(
    ("name", "stem", "state"),
    [
        ("0.log", "0.log", FileState.LIVE),
        ("0.log.deleted", "0.log", FileState.DELETED),
        ("0.index.cleaned", "0.index", FileState.CLEANED),
        ("0.log.swap", "0.log", FileState.SWAP),
        ("0.log.swap.deleted", "0.log", FileState.DELETED),
        ("meta.properties.tmp", "meta.properties", FileState.TMP),
        ("1-2-3.checkpoint.part", "1-2-3.checkpoint", FileState.PART),
        ("deleted", "deleted", FileState.LIVE),
    ],
)
def test_a_state_is_parted_from_the_name(name: str, stem: str, state: FileState) -> None:
    assert split_state(name) == (stem, state)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_numbers_in_file_names_come_back(offset: int, epoch: int) -> None:
    assert base_offset(segment_file(offset, ".log")) == offset
    assert parse_snapshot_name(snapshot_file(SnapshotName(offset, epoch))) == SnapshotName(offset, epoch)


def test_file_names_are_those_a_broker_gives() -> None:
    assert segment_file(42, ".index") == "00000000000000000042.index"
    assert snapshot_file(SnapshotName(12345, 7)) == "00000000000000012345-0000000007.checkpoint"
    part = "00000000000000012345-0000000007-8812345.checkpoint.part"
    assert parse_snapshot_name(part) == SnapshotName(12345, 7)
    assert parse_snapshot_name("bootstrap.checkpoint") is None


def test_a_remote_segment_id_may_hold_the_separator() -> None:
    name = "42__-_-_-_-_-_-_-_-_-_-_w.timeindex.tmp"
    assert parse_remote_index_name(name) == RemoteIndexName(42, "_-_-_-_-_-_-_-_-_-_-_w")
    assert parse_remote_index_name("42_short.index") is None
    assert parse_remote_index_name("00000000000000000042.index") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("+5", 5),
        ("-2147483648", -(2**31)),
        ("٣", 3),
        ("", None),
        ("-", None),
        (" 1", None),
        ("1_0", None),
    ],
)
def test_numbers_are_read_as_java_reads_them(text: str, value: int | None) -> None:
    assert parse_int(text) == value
    assert parse_long(text) == value


def test_numbers_must_fit() -> None:
    assert parse_int("2147483648") is None
    assert parse_long("9223372036854775808") is None
    assert parse_long("9223372036854775807") == 2**63 - 1


def test_a_topic_name_has_rules() -> None:
    assert topic_problem("a.b_c-D9") is None
    assert all(topic_problem(bad) for bad in ("", ".", "..", "a b", "ä", "a" * 250))
