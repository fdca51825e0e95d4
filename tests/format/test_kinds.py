from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError
from kafkatool.format import kinds
from kafkatool.format.kinds import FileKind, kind_of
from kafkatool.format.names import FileState

BASE = "00000000000000000042"


@given(st.text(max_size=40), st.sampled_from(["", ".log", ".index", ".checkpoint", ".deleted"]))
def test_every_name_has_a_kind(name: str, suffix: str) -> None:
    assert kind_of(name + suffix).kind in kinds.ALL


@given(st.binary(max_size=60), st.sampled_from(kinds.ALL))
def test_a_kinds_reader_gives_a_value_or_a_format_error(buf: bytes, kind: FileKind) -> None:
    if kind.read is not None:
        with suppress(FormatError):
            kind.read(buf)


@pytest.mark.parametrize(
    ("name", "kind", "state", "offset"),
    [
        (f"{BASE}.log", kinds.LOG, FileState.LIVE, 42),
        (f"{BASE}.log.swap", kinds.LOG, FileState.SWAP, 42),
        (f"{BASE}.index.deleted", kinds.OFFSET_INDEX, FileState.DELETED, 42),
        (f"{BASE}.timeindex.cleaned", kinds.TIME_INDEX, FileState.CLEANED, 42),
        (f"{BASE}.txnindex", kinds.TXN_INDEX, FileState.LIVE, 42),
        (f"{BASE}.snapshot", kinds.PRODUCER_SNAPSHOT, FileState.LIVE, 42),
        (f"{BASE}-0000000007.checkpoint", kinds.RAFT_SNAPSHOT, FileState.LIVE, 42),
        (f"{BASE}-0000000007.checkpoint.deleted", kinds.RAFT_SNAPSHOT, FileState.DELETED, 42),
        (f"{BASE}-0000000007-123.checkpoint.part", kinds.RAFT_SNAPSHOT, FileState.PART, 42),
        ("7_AAAAAAAAAAAAAAAAAAAAAQ.index.tmp", kinds.OFFSET_INDEX, FileState.TMP, 7),
        ("bootstrap.checkpoint", kinds.BOOTSTRAP, FileState.LIVE, None),
        ("leader-epoch-checkpoint", kinds.LEADER_EPOCHS, FileState.LIVE, None),
        ("recovery-point-offset-checkpoint.tmp", kinds.RECOVERY_POINTS, FileState.TMP, None),
        ("replication-offset-checkpoint", kinds.HIGH_WATERMARKS, FileState.LIVE, None),
        ("log-start-offset-checkpoint", kinds.LOG_STARTS, FileState.LIVE, None),
        ("cleaner-offset-checkpoint", kinds.CLEANER_OFFSETS, FileState.LIVE, None),
        ("partition.metadata", kinds.PARTITION_METADATA, FileState.LIVE, None),
        ("meta.properties", kinds.META_PROPERTIES, FileState.LIVE, None),
        ("quorum-state", kinds.QUORUM_STATE, FileState.LIVE, None),
        (".kafka_cleanshutdown", kinds.CLEAN_SHUTDOWN, FileState.LIVE, None),
        (".lock", kinds.LOCK, FileState.LIVE, None),
        (f"{BASE}.log.kafkatool-1", kinds.BACKUP, FileState.LIVE, None),
        (f"{BASE}.log.kafkatool-4be1f07a92c3", kinds.BACKUP, FileState.LIVE, None),
        (f"{BASE}.log.kafkatool-4be1f07a92c3.tmp", kinds.BACKUP, FileState.LIVE, None),
        (f"{BASE}.log.kafkatool-4be1f07a92c3.undo.tmp", kinds.BACKUP, FileState.LIVE, None),
        (f"{BASE}.log.kafkatool-4be1f07a92", kinds.UNKNOWN, FileState.LIVE, None),
        ("core.1234", kinds.UNKNOWN, FileState.LIVE, None),
        ("notes.log", kinds.UNKNOWN, FileState.LIVE, None),
        ("", kinds.UNKNOWN, FileState.LIVE, None),
    ],
)
def test_a_file_is_known_by_its_name(name: str, kind: FileKind, state: FileState, offset: int | None) -> None:
    assert kind_of(name) == (kind, state, offset)
