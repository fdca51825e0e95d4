"""What doctor makes of directories and of the host around them, without a broker.

tests/kafka/starting/test_doctor_parity.py asks brokers about the same.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkatool.commands.rows.diagnosis import verdict_text
from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.broker.checkpoint_effects import Effect
from kafkatool.engine.directory.log_dir import LogDir, read_log_dir
from kafkatool.engine.directory.space import Mount
from kafkatool.engine.directory.targets import LogDirTarget
from kafkatool.engine.doctor import examination, limits, volumes
from kafkatool.engine.doctor.brokers import Broker, find_brokers
from kafkatool.engine.doctor.examination import Diagnosis, DoctorRequest, examine
from kafkatool.engine.doctor.limits import OWN_FILES, OWN_MAPS, HostLimits, limit_symptoms, read_limits
from kafkatool.engine.doctor.loading import Scans
from kafkatool.engine.doctor.permissions import User, find_user, permission_symptoms
from kafkatool.engine.doctor.recovery_time import estimate, measured_rate
from kafkatool.engine.doctor.symptoms import Chart, Loss, StartVerdict, Symptom, host_finding
from kafkatool.engine.doctor.volumes import mount_symptoms, space_symptoms
from kafkatool.engine.files.lock import CLEAN_MARKER
from kafkatool.engine.files.source import Guest
from kafkatool.errors import UsageError
from kafkatool.format.names import segment_file
from tests.engine.cold import make_cold_file
from tests.engine.disk import OTHER_ID, write_node_dir
from tests.engine.partitions_to_verify import SEGMENT, TOPIC_ID, log_of, write_healthy_log_dir, write_metadata
from tests.logs import GUEST
from tests.mutations import flip, put

NOW_MS = 1_800_000_000_000


def visit(*log_dirs: Path, **asked: Any) -> Diagnosis:
    """Of one broker that has these directories, as if on its own host unless told otherwise."""
    targets = [LogDirTarget(str(path)) for path in log_dirs]
    (broker,) = find_brokers([], targets, GUEST)
    return examine(broker, DoctorRequest(now_ms=NOW_MS, guest=GUEST, **{"is_elsewhere": True, **asked}))


def configured(tmp_path: Path, *log_dirs: Path, **settings: str) -> Diagnosis:
    path = tmp_path / "server.properties"
    lines = {"log.dirs": ",".join(map(str, log_dirs)), "process.roles": "broker,controller", **settings}
    path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in lines.items()))
    (broker,) = find_brokers([str(path)], [], GUEST)
    return examine(broker, DoctorRequest(now_ms=NOW_MS, guest=GUEST, is_elsewhere=True))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Of a broker that crashed: three segments, flushed up to the third."""
    return write_healthy_log_dir(tmp_path / "logs", isr=[1])


def shorten(path: Path, by: int) -> None:
    os.truncate(path, path.stat().st_size - by)


def only(found: Diagnosis, kind: FindingClass) -> str:
    (message,) = [one.damage.message for one in found.chart.findings if one.damage.kind is kind]
    return message


# --- the verdict ------------------------------------------------------------------------------------------


def symptom(effect: Effect, log_dir: str = "a") -> Symptom:
    return Symptom(host_finding("f", FindingClass.BAD_METADATA, Severity.NOTE, "m", None), effect, log_dir)


@pytest.mark.parametrize(
    ("effects", "losses", "failures", "expected"),
    [
        ([], 0, 0, StartVerdict.STARTS),
        ([Effect.NOTE], 0, 0, StartVerdict.STARTS),
        ([], 0, 1, StartVerdict.UNKNOWN),
        ([], 1, 1, StartVerdict.LOSES),
        ([Effect.OFFLINE], 1, 0, StartVerdict.PARTLY),
        ([Effect.OFFLINE, Effect.LEADERLESS], 1, 0, StartVerdict.SERVES_NOTHING),
        ([Effect.OFFLINE, Effect.LEADERLESS, Effect.REFUSE], 1, 1, StartVerdict.NO_START),
    ],
)
def test_the_worst_that_happens_is_the_verdict(
    effects: list[Effect], losses: int, failures: int, expected: StartVerdict
) -> None:
    lost = Symptom(host_finding("t-0/f", FindingClass.BAD_CRC, Severity.LOSS, "m", None))
    chart = Chart([*map(symptom, effects), *[lost] * losses], ["?"] * failures)
    assert chart.verdict(["a", "b"]) is expected


def test_a_broker_without_any_directory_left_does_not_start() -> None:
    chart = Chart([symptom(Effect.OFFLINE, "a"), symptom(Effect.OFFLINE, "b")])
    assert chart.verdict(["a", "b"]) is StartVerdict.NO_START


def test_what_stops_a_start_is_told_before_all_else() -> None:
    def one(severity: Severity, effect: Effect) -> Symptom:
        return Symptom(host_finding(severity.label, FindingClass.GAP, severity, "", None), effect)

    chart = Chart(
        [
            one(Severity.NOTE, Effect.NOTE),
            one(Severity.LOSS, Effect.NOTE),
            one(Severity.NO_START, Effect.REFUSE),
        ]
    )
    assert [finding.file for finding in chart.findings] == ["no_start", "loss", "note"]


def test_a_directory_in_order_starts(log_dir: Path) -> None:
    found = visit(log_dir)
    assert (found.verdict, found.chart.losses, found.worst) == (StartVerdict.STARTS, [], Severity.DEGRADED)
    # It names no directory.id, which is the one thing to tell.
    assert "directory.id" in found.chart.findings[0].damage.message


# --- what is lost -----------------------------------------------------------------------------------------


def test_a_cut_is_counted_up_to_where_the_high_watermark_was(log_dir: Path) -> None:
    shorten(log_of(log_dir, 2), 10)
    found = visit(log_dir)
    assert found.verdict is StartVerdict.LOSES
    assert found.chart.losses == [Loss("orders-0", 1)]


def test_without_a_checkpoint_that_goes_so_far_a_torn_batch_is_at_least_one_offset(log_dir: Path) -> None:
    shorten(log_of(log_dir, 2), 10)
    (log_dir / "replication-offset-checkpoint").unlink()
    assert visit(log_dir).chart.losses == [Loss("orders-0", 1, is_at_least=True)]


def test_segments_behind_a_damage_that_is_scanned_are_counted_too(log_dir: Path) -> None:
    (log_dir / "recovery-point-offset-checkpoint").unlink()
    flip(log_of(log_dir, 1), 100)
    found = visit(log_dir)
    assert found.chart.lost_offsets == 2 * SEGMENT
    assert "1 segment behind it deleted" in only(found, FindingClass.BIT_FLIP)


def test_damage_below_the_recovery_point_is_lost_too_if_the_sample_finds_it(log_dir: Path) -> None:
    flip(log_of(log_dir, 0), 100)
    found = visit(log_dir)
    assert found.verdict is StartVerdict.LOSES
    assert found.chart.lost_offsets == 1
    assert visit(log_dir, sample=1e-9).worst is Severity.DEGRADED


def test_a_mark_of_a_clean_shutdown_over_a_torn_tail_is_a_loss_and_nothing_is_scanned(log_dir: Path) -> None:
    (log_dir / CLEAN_MARKER).write_text('{"version":0,"brokerEpoch":1}')
    (log_dir / "__cluster_metadata-0").rename(log_dir.parent / "__cluster_metadata-0")
    assert visit(log_dir).verdict is StartVerdict.STARTS
    shorten(log_of(log_dir, 2), 10)
    found = visit(log_dir)
    assert (found.verdict, found.recovery) == (StartVerdict.LOSES, None)
    (finding, *_) = found.chart.findings
    assert "believes the mark of a clean shutdown" in finding.damage.message
    assert finding.fix is not None
    assert finding.fix.startswith("kafkatool recover --apply ")


def test_a_log_that_ends_below_its_log_start_is_lost_as_a_whole(log_dir: Path) -> None:
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\norders 0 1000\n")
    found = visit(log_dir)
    assert found.chart.losses == [Loss("orders-0", 3 * SEGMENT)]
    assert "below its log start offset" in only(found, FindingClass.BAD_CHECKPOINT)


def test_a_stray_partition_is_lost_and_the_command_gives_it_its_id_back(log_dir: Path) -> None:
    (log_dir / "orders-0" / "partition.metadata").unlink()
    found = visit(log_dir)
    assert found.chart.losses == [Loss("orders-0", 3 * SEGMENT)]
    advice = [one.fix for one in found.chart.findings if one.fix and one.fix.startswith("printf ")]
    assert len(advice) == 1
    assert os.system(advice[0]) == 0
    assert TOPIC_ID in (log_dir / "orders-0" / "partition.metadata").read_text()
    assert visit(log_dir).verdict is StartVerdict.STARTS


def test_metadata_that_was_cut_makes_strays_only_where_no_other_controller_has_the_rest(
    log_dir: Path, tmp_path: Path
) -> None:
    shorten(log_dir / "__cluster_metadata-0" / segment_file(0, ".log"), 5)
    alone = configured(tmp_path, log_dir, controller_quorum_voters="1@a:1")
    assert {loss.partition for loss in alone.chart.losses} == {"orders-0", "__cluster_metadata-0"}
    among = configured(tmp_path, log_dir, controller_quorum_voters="1@a:1,2@b:1,3@c:1")
    assert {loss.partition for loss in among.chart.losses} == {"__cluster_metadata-0"}
    assert any("other controllers" in note for note in among.chart.notes), among.chart.notes


def test_without_the_scan_an_unclean_directory_is_not_vouched_for(log_dir: Path) -> None:
    found = visit(log_dir, is_quick=True)
    assert (found.verdict, found.chart.unscanned) == (StartVerdict.UNKNOWN, [str(log_dir)])
    flip(log_of(log_dir, 2), 100)
    assert visit(log_dir, is_quick=True).chart.losses == [Loss("orders-0", 1, is_at_least=True)]


def test_a_missing_index_is_told_with_the_command_that_makes_it(log_dir: Path) -> None:
    log_of(log_dir, 0, ".index").unlink()
    found = visit(log_dir)
    assert found.verdict is StartVerdict.STARTS
    assert "offset index is missing" in only(found, FindingClass.MISSING_FILE)


def test_zeros_at_the_end_of_a_log_are_told_for_what_they_may_be(log_dir: Path) -> None:
    os.truncate(log_of(log_dir, 2), log_of(log_dir, 2).stat().st_size + 500)
    found = visit(log_dir)
    assert found.verdict is StartVerdict.STARTS
    assert "500 zeros" in only(found, FindingClass.ZERO_FILLED)


def test_the_only_controller_without_its_metadata_log_loses_every_partition(
    log_dir: Path, tmp_path: Path
) -> None:
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    alone = configured(tmp_path, log_dir, controller_quorum_voters="1@a:1")
    assert alone.verdict is StartVerdict.LOSES
    assert Loss("orders-0", 3 * SEGMENT) in alone.chart.losses
    among = configured(tmp_path, log_dir, controller_quorum_voters="1@a:1,2@b:1,3@c:1")
    assert (among.verdict, among.worst) == (StartVerdict.STARTS, Severity.DEGRADED)
    broker = configured(tmp_path, log_dir, process_roles="broker", controller_quorum_voters="9@a:1")
    assert not any("metadata log" in one.damage.message for one in broker.chart.findings)


def rebuilt_metadata(log_dir: Path, isr: list[int], directories: list[str] | None = None) -> None:
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    write_metadata(log_dir / "__cluster_metadata-0", isr, directories)


@pytest.mark.parametrize(
    ("isr", "is_marked", "lost", "maybe"),
    [([1], False, 3 * SEGMENT, 0), ([1, 2], False, 0, 0), ([1, 2], True, 0, 3 * SEGMENT)],
)
def test_a_partition_that_the_metadata_has_here_is_missed(
    log_dir: Path, tmp_path: Path, isr: list[int], is_marked: bool, lost: int, maybe: int
) -> None:
    """With the mark of a clean shutdown an empty copy may be elected."""
    rebuilt_metadata(log_dir, isr)
    shutil.rmtree(log_dir / "orders-0")
    if is_marked:
        (log_dir / CLEAN_MARKER).write_text("{}")
    found = configured(tmp_path, log_dir)
    assert (found.chart.lost_offsets, sum(one.offsets for one in found.chart.maybe_losses)) == (lost, maybe)
    assert found.verdict is (StartVerdict.LOSES if lost else StartVerdict.STARTS)
    (finding,) = [one for one in found.chart.findings if one.file.endswith("/orders-0")]
    assert finding.fix == (
        f"mv -n {log_dir}/{CLEAN_MARKER} {log_dir}/{CLEAN_MARKER}.bad" if is_marked else None
    )
    # Of a directory by itself nobody knows whether the others have it.
    assert not any(one.file.endswith("/orders-0") for one in visit(log_dir).chart.findings)


def test_what_lies_above_the_high_watermark_is_for_others_to_decide(log_dir: Path) -> None:
    rebuilt_metadata(log_dir, [1, 2])
    (log_dir / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {3 * SEGMENT - 7}\n")
    found = visit(log_dir)
    assert (found.verdict, found.chart.lost_offsets) == (StartVerdict.STARTS, 0)
    assert found.chart.maybe_losses == [Loss("orders-0", 7)]
    assert "7 offsets in 1 partition are for other replicas" in verdict_text(found)


def test_a_batch_whose_offset_goes_backwards_is_a_loss(log_dir: Path) -> None:
    put(log_of(log_dir, 0), 7, b"\x09")  # the first batch claims to come later than the next
    found = visit(log_dir)
    assert found.verdict is StartVerdict.LOSES
    assert found.chart.lost_offsets >= 1


def test_a_damaged_copy_on_its_way_is_no_loss_while_the_current_one_is_whole(log_dir: Path) -> None:
    copy = log_dir / f"orders-0.{'0' * 32}-future"
    shutil.copytree(log_dir / "orders-0", copy)
    flip(copy / segment_file(2 * SEGMENT, ".log"), 100)
    flip(copy / segment_file(0, ".log"), 100)
    found = visit(log_dir)
    assert (found.verdict, found.worst) == (StartVerdict.STARTS, Severity.DEGRADED)
    shutil.rmtree(log_dir / "orders-0")
    assert visit(log_dir).verdict is StartVerdict.LOSES


def test_an_index_that_a_kill_left_unmade_is_a_note_as_verify_says_nothing(log_dir: Path) -> None:
    log_of(log_dir, 2, ".index").unlink()
    found = visit(log_dir)
    (finding,) = [one for one in found.chart.findings if one.damage.kind is FindingClass.MISSING_FILE]
    assert finding.damage.severity is Severity.NOTE


def test_one_directory_of_two_without_the_mark_makes_the_whole_broker_unclean(tmp_path: Path) -> None:
    one, two = (
        write_node_dir(tmp_path / "a"),
        write_node_dir(tmp_path / "b", metadata=False, directory_id=OTHER_ID),
    )
    shutil.move(two / "orders-0", two / "orders-1")
    (one / CLEAN_MARKER).write_text("{}")
    assert "ended uncleanly" in only(visit(one, two), FindingClass.MISSING_FILE)


def test_a_lost_owner_is_written_anew_with_the_id_that_the_records_have(
    log_dir: Path, tmp_path: Path
) -> None:
    """With another id the cluster would take it for another directory."""
    rebuilt_metadata(log_dir, [1], [OTHER_ID, TOPIC_ID, TOPIC_ID])
    before = "version=1\ncluster.id=<CLUSTER_ID>\nnode.id=1\ndirectory.id=" + OTHER_ID + "\n"
    (log_dir / "meta.properties").unlink()
    found = configured(tmp_path, log_dir, node_id="1")
    assert found.verdict is StartVerdict.NO_START
    advice = found.chart.findings[0].fix
    assert advice is not None
    assert os.system(advice.replace("<CLUSTER_ID>", "'<CLUSTER_ID>'")) == 0
    assert (log_dir / "meta.properties").read_text() == before
    assert configured(tmp_path, log_dir, node_id="1").verdict is StartVerdict.STARTS


# --- brokers ----------------------------------------------------------------------------------------------


def test_directories_are_put_together_by_owner_and_a_partition_is_no_broker(tmp_path: Path) -> None:
    one, two = (
        write_node_dir(tmp_path / "a"),
        write_node_dir(tmp_path / "b", metadata=False, directory_id=OTHER_ID),
    )
    other = write_node_dir(tmp_path / "c", directory_id=OTHER_ID)
    (other / "meta.properties").write_text("version=1\nnode.id=8\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")
    targets = [LogDirTarget(str(path)) for path in (one, other, two)]
    assert [len(broker.log_dirs) for broker in find_brokers([], targets, GUEST)] == [2, 1]


@pytest.mark.parametrize("is_made", [False, True])
@pytest.mark.parametrize("lost", [None, OTHER_ID])
def test_a_configured_directory_that_is_missing_or_empty_stops_a_kraft_node(
    log_dir: Path, tmp_path: Path, is_made: bool, lost: str | None
) -> None:
    """It is to be formatted only where the metadata proves that no partition is in it."""
    (log_dir / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id=c\ndirectory.id={TOPIC_ID}\n")
    rebuilt_metadata(log_dir, [1], [lost or TOPIC_ID, TOPIC_ID, TOPIC_ID])
    if is_made:
        (tmp_path / "b").mkdir()
    found = configured(tmp_path, log_dir, tmp_path / "b")
    assert found.verdict is StartVerdict.NO_START
    (finding,) = [one for one in found.chart.findings if one.file == str(tmp_path / "b")]
    assert (finding.fix is None) == (lost is not None)
    assert ("is its volume mounted" in finding.damage.message) == (lost is not None)


def test_all_directories_of_a_configuration_may_be_missing(tmp_path: Path) -> None:
    assert configured(tmp_path, tmp_path / "gone").verdict is StartVerdict.NO_START


def test_one_directory_of_two_that_cannot_be_used_is_left_out(tmp_path: Path) -> None:
    one, two = (
        write_node_dir(tmp_path / "a"),
        write_node_dir(tmp_path / "b", metadata=False, directory_id=OTHER_ID),
    )
    shutil.move(two / "orders-0", two / "orders-1")
    (two / "recovery-point-offset-checkpoint").write_text("7\n")
    found = visit(one, two)
    assert (found.verdict, found.offline) == (StartVerdict.PARTLY, [str(two)])


# --- permissions ------------------------------------------------------------------------------------------

NOBODY = User(4242, frozenset({4243}), "nobody")


def denied(log_dir: Path, user: User = NOBODY) -> list[Symptom]:
    return list(permission_symptoms([read_log_dir(str(log_dir), GUEST)], user))


@pytest.fixture
def open_dir(log_dir: Path) -> Path:
    """Everything is open to everybody."""
    for path in (log_dir, *log_dir.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    for above in log_dir.parents:
        if above.stat().st_uid == os.getuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o011)
    return log_dir


@pytest.mark.parametrize(
    ("close", "what"),
    [
        (lambda path: log_of(path, 2).chmod(0o444), "write"),
        (lambda path: log_of(path, 0).chmod(0), "read"),
        (lambda path: (path / "orders-0").chmod(0o711), "list"),
        (lambda path: (path / "meta.properties").chmod(0o600), "read"),
        (lambda path: path.parent.chmod(0o700), "pass through"),
    ],
)
def test_what_the_brokers_user_may_not_open_keeps_it_from_starting(
    open_dir: Path, close: Callable[[Path], None], what: str
) -> None:
    assert denied(open_dir) == []
    close(open_dir)
    (found,) = denied(open_dir)
    assert found.effect is Effect.REFUSE  # the metadata log is in it
    assert f"nobody may not {what} it" in found.finding.damage.message
    assert denied(open_dir, User(0, frozenset(), "root")) == []


def test_a_group_may_be_enough_and_a_checkpoint_need_not_be_writable(open_dir: Path) -> None:
    log_of(open_dir, 2).chmod(0o060)
    group = User(4242, frozenset({os.stat(open_dir).st_gid}), "kafka")
    assert denied(open_dir, group) == []
    (open_dir / "replication-offset-checkpoint").chmod(0o444)
    assert denied(open_dir, group) == []


def test_indexes_of_old_segments_matter_only_when_they_are_read(open_dir: Path) -> None:
    log_of(open_dir, 0, ".index").chmod(0)
    assert [found.effect for found in denied(open_dir)] == [Effect.REFUSE]
    (open_dir / CLEAN_MARKER).touch()
    (open_dir / CLEAN_MARKER).chmod(0o666)
    assert [found.effect for found in denied(open_dir)] == [Effect.NOTE]


def test_the_user_is_the_owner_unless_one_is_named(log_dir: Path) -> None:
    known = [read_log_dir(str(log_dir), GUEST)]
    owner = find_user(None, known)
    assert owner is not None
    assert owner.uid == os.getuid()
    stranger = find_user("987654", known)
    assert stranger is not None
    assert (stranger.uid, stranger.name) == (987654, None)
    with pytest.raises(UsageError, match="no such user on this host"):
        find_user("no-such-user", known)


# --- limits -----------------------------------------------------------------------------------------------


def many(segments: int, log_dir: Path) -> list[LogDir]:
    """A directory as if it had so many times its three segments."""
    found = read_log_dir(str(log_dir), GUEST)
    orders = next(one for one in found.partitions if one.topic == "orders")
    found.names = {f"orders-{number}": None for number in range(segments // 3)}
    found.listed = dict.fromkeys(found.names, orders)
    return [found]


def test_too_few_open_files_stop_a_start_only_where_the_limit_is_surely_the_brokers(log_dir: Path) -> None:
    dirs = many(3000, log_dir)
    (sure,) = limit_symptoms(dirs, HostLimits(3000, True, None), [])
    assert (sure.effect, sure.finding.damage.severity) == (Effect.REFUSE, Severity.NO_START)
    (perhaps,) = limit_symptoms(dirs, HostLimits(3000, False, None), [])
    assert (perhaps.effect, perhaps.finding.damage.severity) == (Effect.NOTE, Severity.DEGRADED)
    needed = OWN_FILES + 3000 + 1000  # and the third segment of each has a transaction index
    (near,) = limit_symptoms(dirs, HostLimits(needed, True, None), [])
    assert near.effect is Effect.NOTE
    assert list(limit_symptoms(dirs, HostLimits(2 * needed, True, None), [])) == []


def test_memory_maps_stop_a_start_or_a_broker_later(log_dir: Path) -> None:
    dirs = many(3000, log_dir)
    (later,) = limit_symptoms(dirs, HostLimits(None, False, 6000), [])
    assert later.effect is Effect.NOTE
    assert "when old segments are read" in later.finding.damage.message
    scanned = [Scans("d", [], [("x.log", 1)] * 3000)]
    (now,) = limit_symptoms(dirs, HostLimits(None, False, 6000), scanned)
    assert now.effect is Effect.REFUSE
    assert list(limit_symptoms(dirs, HostLimits(None, False, 2 * (6000 + OWN_MAPS)), [])) == []


def test_limits_are_given_or_asked_of_the_broker_or_of_this_shell_and_of_no_other_host() -> None:
    assert read_limits(None, 7, 8, is_elsewhere=True) == HostLimits(7, True, 8)
    assert read_limits(None, None, None, is_elsewhere=True) == HostLimits(None, False, None)
    mine = read_limits(os.getpid(), None, None, is_elsewhere=False)
    assert mine.is_nofile_certain
    assert mine.nofile == limits._nofile_of(os.getpid())
    assert not read_limits(None, None, None, is_elsewhere=False).is_nofile_certain
    assert mine.max_map_count == int(Path("/proc/sys/vm/max_map_count").read_text())


# --- volumes ----------------------------------------------------------------------------------------------


def with_free(monkeypatch: pytest.MonkeyPatch, free: int, flag: int = 0) -> None:
    real = os.statvfs

    def statvfs(path: str) -> os.statvfs_result:
        found = list(real(path))
        found[1] = 1
        found[3] = found[4] = free
        found[8] = flag
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", statvfs)


def test_a_full_volume_stops_a_start_and_a_nearly_full_one_stops_a_broker_later(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [read_log_dir(str(log_dir), GUEST)]
    assert list(space_symptoms(known, [], is_root=False)) == []
    with_free(monkeypatch, 4096)
    (full,) = space_symptoms(known, [], is_root=False)
    assert (full.effect, full.finding.damage.kind) == (Effect.REFUSE, FindingClass.NO_SPACE)
    # The newest segment's indexes are as large as they may get, and not yet written.
    for extension in (".index", ".timeindex"):
        os.truncate(log_of(log_dir, 2, extension), 12 << 20)
    known = [read_log_dir(str(log_dir), GUEST)]
    with_free(monkeypatch, 20 << 20)
    (nearly,) = space_symptoms(known, [], is_root=False)
    assert nearly.effect is Effect.NOTE


@pytest.mark.parametrize(
    ("file_system", "options", "words"),
    [
        ("ext4", "rw,relatime", None),
        ("xfs", "rw,noatime", None),
        ("nfs4", "rw,relatime", "on nfs4"),
        ("tmpfs", "rw", "it is memory"),
        ("ext4", "rw,nobarrier", "lost with the power"),
        ("ext4", "rw,strictatime", "every read is a write"),
    ],
)
def test_file_systems_and_options_that_hurt_are_told(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, file_system: str, options: str, words: str | None
) -> None:
    mounted = Mount("/dev/x", "/data", file_system, options)
    monkeypatch.setattr(volumes, "find_mount", lambda directory: mounted)
    with_free(monkeypatch, 1 << 30)
    found = [one.finding.damage.message for one in mount_symptoms([read_log_dir(str(log_dir), GUEST)])]
    assert found == [] if words is None else words in found[0]


def test_a_read_only_volume_stops_a_start(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_free(monkeypatch, 1 << 30, os.ST_RDONLY)
    found = list(mount_symptoms([read_log_dir(str(log_dir), GUEST)]))
    assert Effect.REFUSE in {one.effect for one in found}


# --- time -------------------------------------------------------------------------------------------------

GIB = 1 << 30


def test_the_time_of_a_recovery_is_a_range_that_threads_and_the_volume_bound() -> None:
    scans = [Scans("a", [GIB] * 8), Scans("b", [GIB])]
    slow = estimate(scans, (1, 1), 100 << 20)
    assert slow.least_ms == 8000  # as fast as one thread can, with everything in memory
    assert slow.most_ms is not None
    assert 184_000 < slow.most_ms < 186_000  # nine GiB from half of a disk of 100 MiB/s
    assert estimate(scans, (4, 4), 100 << 20).least_ms == 2000
    assert estimate(scans, (4, 4), None).most_ms is None
    one_large = estimate([Scans("a", [8 * GIB])], (4, 4), 1e12)
    assert one_large.least_ms == 8000  # a partition has one thread


def test_the_rate_is_measured_on_what_is_not_in_memory_and_not_known_otherwise(tmp_path: Path) -> None:
    path = make_cold_file(tmp_path, 4 << 20)
    rate = measured_rate([str(path)], Guest())
    assert rate is not None
    assert rate > 0
    assert measured_rate([str(path)], Guest(max_rate=1 << 20)) is None
    assert measured_rate([str(tmp_path / "gone")], Guest()) is None
    path.read_bytes()
    assert measured_rate([str(path)], Guest()) is None


def test_threads_are_those_of_the_configuration_or_the_defaults_of_all_releases(tmp_path: Path) -> None:
    assert Broker([]).recovery_threads == (1, 2)
    one = write_node_dir(tmp_path / "a")
    found = configured(tmp_path, one, num_recovery_threads_per_data_dir="8")
    assert found.broker.recovery_threads == (8, 8)


# --- the host as a whole ----------------------------------------------------------------------------------


def test_of_another_host_nothing_is_asked_and_that_is_said(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("asked of this host")

    for name in ("find_user", "space_symptoms", "mount_symptoms", "measured_rate"):
        monkeypatch.setattr(examination, name, never)
    found = visit(log_dir)
    assert any("not the broker's host" in note for note in found.chart.notes)


def test_an_owner_without_a_name_hints_at_a_copy(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "find_user", lambda user, log_dirs: User(98765, frozenset(), None))
    found = visit(log_dir, is_elsewhere=False)
    assert any("98765" in note and "--elsewhere" in note for note in found.chart.notes)
