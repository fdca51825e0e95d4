"""Every advice of the table is followed to the letter, and no acknowledged record is lost.

Most are staged here, on one broker: its directory is hurt in many ways at once, and whoever is told what to
do does just that, until `doctor` has nothing more to say. Then the broker starts, and gives every record.
What needs a cluster, a transaction or an expired topic is staged beside what it is about; the mark `advice`
names what a test follows.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkatool.engine.advice.table import Advice, is_a_plan
from kafkatool.engine.files.lock import CLEAN_MARKER
from tests.cli import of_kind, rows_of, run
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.dump_tool import environment
from tests.kafka.kafka_scripts import follow, write_scripts
from tests.kafka.librdkafka import Placed, Record, wait_until
from tests.log_dirs import digest
from tests.mutations import flip

TESTS = Path(__file__).parents[2]
TOPICS = ("index", "snapshot", "identity", "epochs", "name", "flip", "rest")
RECORDS = 40
SEGMENT = "00000000000000000000"

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("advice")]


def followed_advices() -> set[str]:
    """The names that tests are marked with."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.advice":
                found |= {str(ast.literal_eval(argument)) for argument in node.args}
    return found


def test_every_advice_of_the_table_is_followed_by_a_test() -> None:
    assert {one.name for one in Advice} == followed_advices()


# --- a broker's directory ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scripts(tmp_path_factory.mktemp("scripts"))


@pytest.fixture(scope="module")
def filled() -> Iterator[Broker]:
    """A broker that was stopped, with some topics of several segments; its disk is in `whole`."""
    peers.require_kafka(peers.NEWEST)
    with Broker() as broker:
        for topic in TOPICS:
            broker.client.create_topic(topic, {"segment.bytes": "1048576", "index.interval.bytes": "200"})
            steps = [[Record(b"k%d" % number, b"v" * 60)] for number in range(RECORDS)]
            broker.client.produce_steps(topic, steps, enable_idempotence=True)
        broker.stop()
        shutil.copytree(broker.log_dir, broker.root / "whole", symlinks=True)
        yield broker


@pytest.fixture
def stopped(filled: Broker) -> Broker:
    """The same, as it was when it was stopped."""
    shutil.rmtree(filled.log_dir)
    shutil.copytree(filled.root / "whole", filled.log_dir, symlinks=True)
    for path in filled.log_dir.iterdir():
        os.utime(path, (1_700_000_000,) * 2)  # it was a while ago
    return filled


def everything(broker: Broker) -> dict[str, list[Placed]]:
    return {topic: broker.client.consume_all(topic, [0])[0] for topic in TOPICS}


def all_offsets(broker: Broker) -> None:
    """Start it: every record that was acknowledged is there, and the topics take more."""
    broker.start()
    try:
        found = everything(broker)
        for topic, records in found.items():
            assert [one.offset for one in records] == list(range(RECORDS)), topic
    finally:
        broker.kill()


def findings(broker: Broker) -> list[dict[str, str | None]]:
    return of_kind(rows_of("doctor", broker.root / "server.properties"), "finding")


def name_of(text: str) -> str:
    """Which advice of the table a text is; the one with most words of its own decides."""
    fitting = [one for one in Advice if re.fullmatch(_pattern(one), text.partition("  # ")[0])]
    return max(fitting, key=lambda one: len(_pattern(one))).name


def _pattern(advice: Advice) -> str:
    words = re.split(r"\{\w+\}", advice.value.partition("  # ")[0])
    return ".+".join(map(re.escape, words))


def obey(broker: Broker, scripts: Path, folder: Path) -> list[str]:
    """Follow what `doctor` advises, the first first, until nothing changes any more; returns the names."""
    followed: list[str] = []
    done: set[str] = set()
    for _ in range(30):
        advices = [str(row["fix"]) for row in findings(broker) if row["fix"] and row["severity"] != "note"]
        new = [text for text in advices if text not in done]
        if not new:
            return followed
        done.add(new[0])
        followed.append(name_of(new[0]))
        given = {name: folder for name in ("DIR",) if f"<{name}>" in new[0]}
        given |= {"CLUSTER_ID": Path(broker.cluster_id)} if "<CLUSTER_ID>" in new[0] else {}
        folder.mkdir(exist_ok=True)
        if is_a_plan(new[0]):
            follow(new[0], scripts, given, more="--apply", codes=(0, 4))
        else:
            follow(new[0], scripts, given, codes=(0, 2, 4))
    raise AssertionError(followed)


def hurt(log_dir: Path) -> None:
    """After a kill: much that keeps a broker from starting, or from serving, and no record harmed."""
    (log_dir / CLEAN_MARKER).unlink()
    (log_dir / "identity-0" / "partition.metadata").unlink()
    (log_dir / "epochs-0" / "leader-epoch-checkpoint").write_text("not a checkpoint\n")
    (log_dir / "name-0" / "5.log").write_bytes(b"")
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\nmany\n")
    (log_dir / "meta.properties").unlink()
    (log_dir / "notes of an operator").mkdir()


@pytest.mark.advice("WRITE_OWNER", "WRITE_TOPIC_ID", "DO_WITHOUT", "MOVE_OUT")
def test_what_doctor_advises_is_followed_until_it_has_nothing_to_say(
    stopped: Broker, scripts: Path, tmp_path: Path
) -> None:
    hurt(stopped.log_dir)
    followed = obey(stopped, scripts, tmp_path / "out")
    assert {"WRITE_OWNER", "WRITE_TOPIC_ID", "DO_WITHOUT", "MOVE_OUT"} <= set(followed)
    all_offsets(stopped)


def spoil(log_dir: Path) -> None:
    """Files beside the logs that lie; under the mark of a clean shutdown a broker believes them."""
    index = log_dir / "index-0" / f"{SEGMENT}.index"
    index.write_bytes(b"\xff" * max(8, index.stat().st_size))
    flip(max((log_dir / "snapshot-0").glob("*.snapshot")), -1)


@pytest.mark.soak
@pytest.mark.advice("REBUILD_INDEX")
def test_what_verify_advises_about_files_beside_the_log_is_followed(stopped: Broker, scripts: Path) -> None:
    spoil(stopped.log_dir)
    rows = of_kind(rows_of("verify", stopped.log_dir), "finding")
    advices = {str(row["fix"]) for row in rows if row["fix"]}
    assert "REBUILD_INDEX" in map(name_of, advices)
    for advice in advices:
        follow(advice, scripts, {}, more="--apply" if is_a_plan(advice) else "", codes=(0, 4))
    all_offsets(stopped)


@pytest.mark.advice("RECOVER_MENDING", "SHOW_UNDO", "UNDO")
def test_a_flipped_bit_is_mended_as_verify_says_and_the_way_back_is_as_printed(
    stopped: Broker, scripts: Path, tmp_path: Path
) -> None:
    log = stopped.log_dir / "flip-0" / f"{SEGMENT}.log"
    flip(log, log.read_bytes().rindex(b"vvv"))
    (stopped.log_dir / CLEAN_MARKER).unlink()
    before = digest(stopped.log_dir, ours=True)
    advice = next(row["fix"] for row in rows_of("verify", log.parent) if row.get("fix"))
    assert name_of(advice) == "RECOVER_MENDING"
    said = follow(advice, scripts, {}, more="--apply")
    back = re.search(r"to go back: (.*)", said)
    assert back is not None
    follow(back[1], scripts, {})
    after = digest(stopped.log_dir, ours=True)
    assert {name: after[name] for name in before} == before
    follow(advice, scripts, {}, more="--apply")
    all_offsets(stopped)


@pytest.mark.advice("LIST", "LIST_SPACE", "VERIFY", "SHOW_FILE", "SHOW_RECORDS")
@pytest.mark.advice("SHOW_LARGE_BATCH", "SHOW_FROM", "FREE_SPACE", "RECOVER", "RECOVER_KEEPING")
@pytest.mark.advice("REBUILD_INDEX", "REBUILD_FORCED")
def test_what_only_looks_changes_nothing(stopped: Broker, scripts: Path, tmp_path: Path) -> None:
    """Plans too, as they are printed: without --apply."""
    log_dir = stopped.log_dir
    where, file = log_dir / "index-0", log_dir / "index-0" / f"{SEGMENT}.log"
    before = digest(log_dir, ours=True)
    texts = [
        *(one(where=log_dir) for one in (Advice.LIST, Advice.LIST_SPACE)),
        *(one(where=where) for one in (Advice.VERIFY, Advice.RECOVER, Advice.REBUILD_INDEX)),
        *(one(file=file) for one in (Advice.SHOW_FILE, Advice.SHOW_RECORDS, Advice.SHOW_LARGE_BATCH)),
        Advice.SHOW_FROM(offset=7, where=where),
        Advice.REBUILD_FORCED(file=file.with_suffix(".index")),
    ]
    follow("; ".join(texts), scripts, {}, codes=(0, 4))
    follow(Advice.FREE_SPACE(where=log_dir), scripts, {"SIZE": "1K"}, codes=(0, 4))
    follow(Advice.RECOVER_KEEPING(where=where), scripts, {"DIR": tmp_path / "kept"}, codes=(0, 4))
    assert digest(log_dir, ours=True) == before


@pytest.mark.soak
@pytest.mark.advice("RECOVER_NOW")
def test_a_mark_over_a_torn_log_is_taken_away_as_doctor_says(
    stopped: Broker, scripts: Path, tmp_path: Path
) -> None:
    """What was torn off is lost already; what is left is served, and no offset is given out twice."""
    log = stopped.log_dir / "rest-0" / f"{SEGMENT}.log"
    os.truncate(log, log.stat().st_size - 10)
    assert "RECOVER_NOW" in obey(stopped, scripts, tmp_path / "out")
    assert not (stopped.log_dir / CLEAN_MARKER).exists()
    stopped.start()
    try:
        found = everything(stopped)
        assert [one.offset for one in found["rest"]] == list(range(RECORDS - 1))
        assert all(len(records) == RECORDS for topic, records in found.items() if topic != "rest")
    finally:
        stopped.kill()


@pytest.mark.soak
@pytest.mark.advice("FORMAT", "MOVE_COPY_HOME")
def test_a_new_directory_is_formatted_and_a_copy_under_way_is_moved_home(scripts: Path) -> None:
    """A broker with two directories; then a third one is added that nobody has seen."""
    peers.require_kafka(peers.NEWEST)
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(log_dirs=2))
        broker.client.create_topic("t")
        broker.client.produce("t", [Record(b"k", b"v")] * RECORDS)
        broker.stop()
        home = next(path for path in broker.log_dirs if (path / "t-0").exists())
        away = next(path for path in broker.log_dirs if path != home)
        copy = away / f"t-0.{'a' * 32}-future"
        (home / "t-0").rename(copy)
        (home / CLEAN_MARKER).unlink()
        third = broker.root / "logs3"
        broker.properties["log.dirs"] += f",{third}"
        (broker.root / "server.properties").write_text(
            "".join(f"{name}={value}\n" for name, value in broker.properties.items())
        )
        assert set(obey(broker, scripts, broker.root / "out")) >= {"FORMAT", "MOVE_COPY_HOME"}
        broker.start()
        assert [one.offset for one in broker.client.consume_all("t", [0])[0]] == list(range(RECORDS))


@pytest.mark.soak
@pytest.mark.parametrize("version", [peers.OLDEST, peers.NEWEST])
@pytest.mark.parametrize("is_stale", [False, True])
@pytest.mark.advice("SET_ASIDE_COPY")
def test_one_of_two_copies_goes_and_the_broker_starts_with_all_of_it(
    version: str, is_stale: bool, tmp_path: Path
) -> None:
    """A copy that somebody made, once whole, once of before the last records; the copy found first is it."""
    peers.require_kafka(version)
    scripts = write_scripts(tmp_path / "scripts", version)
    with Broker(version, log_dirs=2) as broker:
        broker.client.create_topic("t")
        broker.client.produce("t", [Record(b"k", b"v")] * 10)
        home = next(path for path in broker.log_dirs if (path / "t-0").exists())
        away = next(path for path in broker.log_dirs if path != home)
        broker.stop()
        shutil.copytree(home / "t-0", tmp_path / "t-0")
        if is_stale:
            broker.start()
            broker.client.produce("t", [Record(b"k", b"v")] * 5)
            broker.stop()
        shutil.copytree(tmp_path / "t-0", away / "t-0")
        advice = next(str(row["fix"]) for row in findings(broker) if row["class"] == "overlap")
        assert name_of(advice) == "SET_ASIDE_COPY"
        said = follow(
            advice,
            scripts,
            {"DIR": tmp_path / "out"},
            more="--apply --offline",
            codes=(0, 5) if is_stale else (0,),
        )
        if (other := re.search(r"the other way round: (.*)", said)) is not None:
            assert is_stale
            follow(other[1], scripts, {"DIR": tmp_path / "out"}, more="--apply --offline")
        assert len([path for path in broker.log_dirs if (path / "t-0").exists()]) == 1
        broker.start()
        count = 15 if is_stale else 10
        assert [one.offset for one in broker.client.consume_all("t", [0])[0]] == list(range(count))
        broker.client.produce("t", [Record(b"k", b"v")])


@pytest.mark.soak
@pytest.mark.parametrize("version", [peers.OLDEST, peers.NEWEST])
@pytest.mark.advice("FORGET_VOTE")
def test_a_vote_is_forgotten_only_while_the_other_controllers_have_a_leader(
    version: str, tmp_path: Path
) -> None:
    peers.require_kafka(version)
    scripts = write_scripts(tmp_path / "scripts", version)
    with ExitStack() as stack:
        nodes = [Broker(version) for _ in range(3)]
        addresses = [node.properties["listeners"].rpartition("CONTROLLER://")[2] for node in nodes]
        voters = ",".join(f"{number}@{address}" for number, address in enumerate(addresses, 1))
        for number, node in enumerate(nodes, 1):
            node.cluster_id = nodes[0].cluster_id
            node.properties |= {"node.id": str(number), "controller.quorum.voters": voters}
            stack.callback(node.close)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(Broker.start, nodes))
        first, second, third = nodes
        first.client.create_topic("t", replicas=[1, 2, 3])
        first.client.produce("t", [Record(b"k", b"v")] * RECORDS)
        third.kill()
        state = third.log_dir / "__cluster_metadata-0" / "quorum-state"
        state.write_text("not a vote")
        (row,) = (row for row in findings(third) if row["file"] == str(state))
        assert name_of(str(row["fix"])) == "FORGET_VOTE"
        second.kill()  # one of three elects nobody
        place = {"HOST:PORT": first.bootstrap}
        follow(str(row["fix"]), scripts, place, codes=(1,))
        assert state.exists()
        second.start()
        follow(str(row["fix"]), scripts, place)
        assert not state.exists()
        third.start()
        second.kill()  # now the others need its vote
        wait_until(lambda: has_leader(first, scripts), "the other two have a leader")
        found = third.client.consume_all("t", [0])[0]
        assert [one.offset for one in found] == list(range(RECORDS))


def has_leader(node: Broker, scripts: Path) -> bool:
    script = str(scripts / "kafka-metadata-quorum.sh")
    words = [script, "--bootstrap-server", node.bootstrap, "describe", "--status"]
    return subprocess.run(words, capture_output=True, env=environment()).returncode == 0


# --- a running cluster, and the host ------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.advice("SET_CONFIG", "UNSET_CONFIG")
def test_a_setting_that_frees_space_deletes_what_was_promised_and_is_taken_back(
    stopped: Broker, scripts: Path
) -> None:
    """It deletes on purpose: the segments that were named, and nothing of other topics."""
    stopped.start()
    try:
        stopped.client.create_topic("wide", {"segment.bytes": "1048576"})
        stopped.client.produce("wide", [Record(b"k", os.urandom(100_000))] * 35)
        before = everything(stopped)
        stopped.stop()
        told = run("retention", "--free", "1M", "--format", "ndjson", str(stopped.root / "server.properties"))
        change = told.of("change")[0]
        assert change["topic"] == "wide"
        segments = sorted(int(path.stem) for path in (stopped.log_dir / "wide-0").glob("*.log"))
        stopped.start()
        place = {"HOST:PORT": stopped.bootstrap}
        follow(change["set_command"], scripts, place)
        left = segments[change["segments"]]
        wait_until(lambda: stopped.client.watermarks("wide", [0])[0][0] == left, "what was promised is gone")
        follow(change["undo_command"], scripts, place)
        assert everything(stopped) == before
        assert stopped.client.watermarks("wide", [0])[0] == (left, 35)
    finally:
        stopped.kill()


@pytest.mark.advice("OWN_DIRECTORY", "OPEN_WAY", "OWN_JOURNAL", "HIDE_SECRET", "AUDIT")
@pytest.mark.advice("RAISE_NOFILE", "RAISE_MAPS", "REMOUNT", "REMOUNT_WRITABLE")
def test_advice_about_the_host_is_understood_by_its_programs(
    stopped: Broker, scripts: Path, tmp_path: Path
) -> None:
    """Owners and modes are changed and nothing else; limits and mounts are only asked for, not set."""
    before = digest(stopped.log_dir, ours=True)
    journal = tmp_path / "journal"
    journal.touch(0o644)
    follow(Advice.OWN_DIRECTORY(user="root", where=stopped.log_dir), scripts, {})
    follow(Advice.OPEN_WAY(where=stopped.root), scripts, {})
    follow(Advice.OWN_JOURNAL(where=tmp_path, file=journal), scripts, {})
    follow(Advice.HIDE_SECRET(file=journal), scripts, {})
    assert journal.stat().st_mode & 0o777 == 0o600
    assert digest(stopped.log_dir, ours=True) == before
    follow(Advice.RAISE_NOFILE(number=64), scripts, {})
    for text, program in (
        (Advice.RAISE_MAPS(number=1 << 20), "sysctl"),
        (Advice.REMOUNT(option="noatime", where="/"), "mount"),
        (Advice.REMOUNT_WRITABLE(where="/"), "dmesg"),
        (Advice.AUDIT(lake=tmp_path / "lake"), "kafkatool"),
    ):
        assert text.split()[0] == program
        assert subprocess.run(["bash", "-n", "-c", text.replace("<PATH>", "x")], check=False).returncode == 0
