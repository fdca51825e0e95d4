"""Producer ids are led back to transactional ids by the newest record, damage or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.cluster import transactional_ids
from kafkatool.engine.cluster.transactional_ids import (
    TransactionalId,
    TransactionalIds,
    read_transactional_ids,
)
from kafkatool.engine.directory.log_dir import LogDir, read_log_dir
from kafkatool.format.batch import CONTROL_MASK, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.state.properties import MetaProperties, write_meta_properties
from tests.engine.transaction_states import expired, state, write_states
from tests.logs import GUEST, TIME
from tests.mutations import flipped
from tests.places import FIXTURES

CASES = FIXTURES / "transaction-state"


def read(*log_dirs: Path) -> dict[int, TransactionalId]:
    partitions = [one for path in log_dirs for one in read_log_dir(str(path)).partitions]
    return read_transactional_ids(partitions, GUEST).ids


def names(*log_dirs: Path) -> dict[int, str]:
    return {producer_id: one.name for producer_id, one in read(*log_dirs).items()}


def test_the_newest_record_of_each_id_counts_and_a_tombstone_takes_it_away(tmp_path: Path) -> None:
    write_states(tmp_path, [state("a", 1), state("b", 2), state("c", 3)], [expired("b")])
    write_states(tmp_path, [state("a", 4, producerEpoch=7), state("d", 5, version=0)], base=4)
    write_states(tmp_path, [state("e", 6)], number=1)
    assert names(tmp_path) == {4: "a", 3: "c", 5: "d", 6: "e"}
    users = frozenset({("users", 0)})
    assert read(tmp_path)[4] == TransactionalId("a", 7, "Ongoing", TIME, 4, 60_000, TIME, users)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_any_codec_are_read(tmp_path: Path, codec: Codec) -> None:
    write_states(tmp_path, [state("a", 1), state("b", 2)], [expired("b")], codec=codec)
    assert names(tmp_path) == {1: "a"}


def test_an_id_is_found_by_the_producer_id_before_and_the_next_one(tmp_path: Path) -> None:
    records = [state("a", 2, previousProducerId=1, nextProducerId=3), state("b", 3)]
    write_states(tmp_path, records)
    assert names(tmp_path) == {1: "a", 2: "a", 3: "b"}


def test_damage_is_passed_over(tmp_path: Path) -> None:
    """The second of four batches has a flipped bit, the last is torn."""
    path = write_states(tmp_path, *([state(name, number)] for number, name in enumerate("abcd")))
    data = path.read_bytes()
    path.write_bytes(flipped(data, len(data) * 3 // 8)[:-5])
    assert names(tmp_path) == {0: "a", 2: "c"}


def test_what_is_no_state_of_a_transaction_is_left_out(tmp_path: Path) -> None:
    good = state("b", 2)
    write_states(tmp_path, [state("a", 1)._replace(value=b"\0\1bad"), good, good._replace(key=None)])
    marker = write_batch([state("c", 3)], base_offset=9, attributes=CONTROL_MASK, partition_leader_epoch=0)
    (tmp_path / "__transaction_state-0" / f"{9:020d}.log").write_bytes(marker)
    write_states(tmp_path, [state("x", 8)], number=5).parent.rename(tmp_path / "other-5")
    assert names(tmp_path) == {2: "b"}


@given(key=st.binary(max_size=40), value=st.binary(max_size=60))
def test_any_bytes_are_read_without_an_error(
    tmp_path_factory: pytest.TempPathFactory, key: bytes, value: bytes
) -> None:
    log_dir = tmp_path_factory.mktemp("any")
    write_states(log_dir, [state("a", 1), NewRecord(key, value, TIME), NewRecord(b"\0\0" + key, value, TIME)])
    read(log_dir)


def test_the_copy_that_reaches_furthest_counts(tmp_path: Path) -> None:
    write_states(tmp_path / "1", [state("a", 1)], [state("b", 2)], [expired("b")])
    write_states(tmp_path / "2", [state("a", 1)], [state("b", 2)])
    assert names(tmp_path / "1", tmp_path / "2") == names(tmp_path / "2", tmp_path / "1") == {1: "a"}


def test_no_log_makes_it_hold_more_than_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_ids, "MOST_IDS", 2)
    write_states(tmp_path, [state("a", 1), state("b", 2), state("c", 3), state("a", 4)])
    write_states(tmp_path, [state("d", 5)], number=1)
    assert names(tmp_path) == {4: "a", 2: "b"}


def log_dir(path: Path, cluster_id: str | None = None) -> LogDir:
    path.mkdir(exist_ok=True)
    if cluster_id is not None:
        owner = write_meta_properties(MetaProperties(1, cluster_id, 1, None))
        (path / "meta.properties").write_bytes(owner)
    return read_log_dir(str(path))


def test_other_directories_of_the_cluster_are_asked_and_those_of_another_are_not(tmp_path: Path) -> None:
    for number, name in enumerate("abc"):
        write_states(tmp_path / name, [state(name, 1 + number)], number=number)
    mine, of_same, foreign = (log_dir(tmp_path / name, name.replace("b", "a")) for name in "abc")
    ids = TransactionalIds([mine, of_same, foreign], [], GUEST)
    assert set(ids.near(mine).ids) == {1, 2}
    assert set(ids.near(foreign).ids) == {3}
    assert ids.near(of_same) is ids.near(mine)


def test_the_directories_of_its_configuration_are_asked_too(tmp_path: Path) -> None:
    for number, name in enumerate("ab"):
        write_states(tmp_path / name, [state(name, 1 + number)], number=number)
    server = tmp_path / "server.properties"
    server.write_text(f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'},{tmp_path / 'gone'}\n")
    mine, stranger = log_dir(tmp_path / "a"), log_dir(tmp_path / "c")
    assert set(TransactionalIds([mine], [str(server)], GUEST).near(mine).ids) == {1, 2}
    assert set(TransactionalIds([stranger], [str(server)], GUEST).near(stranger).ids) == set()


@pytest.mark.parametrize("release", ["3.9", "4.3"])
def test_what_a_broker_wrote_is_read(release: str) -> None:
    """All ids have expired but that of the transaction that was left open."""
    assert [(one.name, one.state) for one in read(CASES / release).values()] == [("open", "Ongoing")]
