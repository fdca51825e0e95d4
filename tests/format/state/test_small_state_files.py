"""partition.metadata, .kafka_cleanshutdown and quorum-state."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError
from kafkatool.format.state.clean_shutdown import CleanShutdown, read_clean_shutdown, write_clean_shutdown
from kafkatool.format.state.partition_metadata import (
    PartitionMetadata,
    read_partition_metadata,
    write_partition_metadata,
)
from kafkatool.format.state.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from kafkatool.format.uuids import METADATA_TOPIC_ID, ZERO_UUID, parse_uuid, uuid_text

ids = st.integers(-(2**31), 2**31 - 1)
uuids = st.binary(min_size=16, max_size=16)


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_raise_format_error(buf: bytes) -> None:
    read_clean_shutdown(buf)
    for read in (read_partition_metadata, read_quorum_state):
        with suppress(FormatError):
            read(buf)


@given(uuids)
def test_uuids_come_back_from_their_text(raw: bytes) -> None:
    assert parse_uuid(uuid_text(raw)) == raw
    assert parse_uuid(uuid_text(raw) + "==") == raw


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 22 + "=", "A" * 21 + "+", "A" * 21 + "é"])
def test_what_is_no_uuid_is_none(text: str) -> None:
    assert parse_uuid(text) is None


@given(uuids.filter(lambda raw: raw != ZERO_UUID), st.integers(0, 2**31 - 1))
def test_a_topic_id_comes_back_as_it_was_written(raw: bytes, version: int) -> None:
    metadata = PartitionMetadata(version, uuid_text(raw))
    assert read_partition_metadata(write_partition_metadata(metadata)) == metadata


def test_partition_metadata_is_the_text_a_broker_writes() -> None:
    metadata = PartitionMetadata(0, uuid_text(METADATA_TOPIC_ID))
    assert write_partition_metadata(metadata) == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0",
        "version: -1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        "version:0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: 0\ntopic_id: short",
    ],
)
def test_partition_metadata_that_a_broker_refuses_is_a_format_error(text: str) -> None:
    with pytest.raises(FormatError):
        read_partition_metadata(text.encode())


@given(st.integers(-(2**63), 2**63 - 1))
def test_the_broker_epoch_comes_back_as_it_was_written(epoch: int) -> None:
    assert read_clean_shutdown(write_clean_shutdown(epoch)) == CleanShutdown(0, epoch)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"brokerEpoch":true}', '{"brokerEpoch":null}'])
def test_a_marker_without_an_epoch_is_still_a_marker(text: str) -> None:
    assert read_clean_shutdown(text.encode()).broker_epoch is None


@given(ids, ids, ids, uuids, st.none() | st.lists(ids, max_size=3))
def test_both_versions_of_the_quorum_state_come_back(
    leader: int, epoch: int, voted: int, directory: bytes, voters: list[int] | None
) -> None:
    old = QuorumState(0, leader, epoch, voted, None, None if voters is None else tuple(voters))
    new = QuorumState(1, leader, epoch, voted, uuid_text(directory), None)
    for state in (old, new):
        assert read_quorum_state(write_quorum_state(state)) == state


def test_quorum_state_is_the_text_a_broker_writes() -> None:
    voted = '"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"'
    text = '{"leaderId":1,"leaderEpoch":2,' + voted + ',"data_version":1}'
    assert write_quorum_state(QuorumState(1, 1, 2, -1, uuid_text(ZERO_UUID), None)) == text.encode()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"data_version":2}', '{"data_version":1}'])
def test_a_quorum_state_without_its_fields_is_a_format_error(text: str) -> None:
    with pytest.raises(FormatError):
        read_quorum_state(text.encode())
