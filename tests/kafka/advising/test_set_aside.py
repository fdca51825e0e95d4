"""A copy is set aside on a real cluster: its broker fetches it again, and no acknowledged record is lost."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.files.lock import CLEAN_MARKER
from tests.cli import rows_of, run
from tests.kafka import peers
from tests.kafka.cluster import Cluster, Node
from tests.kafka.kafka_scripts import follow, write_scripts
from tests.kafka.librdkafka import Placed, Record, wait_until
from tests.log_dirs import digest
from tests.mutations import flip

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("set-aside")]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scripts(tmp_path_factory.mktemp("scripts"))


@pytest.fixture(scope="module")
def cluster(scripts: Path) -> Iterator[Cluster]:
    """Three brokers; `whole` has a copy on each, `two` on two of them, and both have to be in sync."""
    peers.require_kafka(peers.NEWEST)
    with Cluster({"metadata.max.idle.interval.ms": "500"}) as running:
        running.create_topic("whole", [1, 2, 3], {"min.insync.replicas": "2"})
        running.create_topic("two", [2, 3], {"min.insync.replicas": "2"})
        running.create_topic("one", [2])
        for topic in ("whole", "two", "one"):
            running.produce(topic, [[Record(b"k%d" % number, b"v" * 50)] for number in range(60)])
        yield running


def everything(cluster: Cluster, topic: str) -> list[Placed]:
    return cluster.client.consume_all(topic, [0])[0]


def describe(cluster: Cluster, scripts: Path, target: Path) -> Path:
    follow(Advice.DESCRIBE(), scripts, {"HOST:PORT": cluster.nodes[1].bootstrap, "FILE": target})
    return target


def log_dir_of(node: Node, topic: str) -> Path:
    return node.partition_dir(topic).parent


def test_what_is_set_aside_is_fetched_again_and_can_be_brought_back(
    cluster: Cluster, scripts: Path, tmp_path: Path
) -> None:
    node = cluster.nodes[2]
    acknowledged = everything(cluster, "whole")
    early = describe(cluster, scripts, tmp_path / "early")
    node.stop()
    cluster.wait_for("whole", in_sync=[1, 3])
    copy, log_dir = node.partition_dir("whole"), log_dir_of(node, "whole")
    words = ["set-aside", str(copy), "--move-to", str(tmp_path / "aside"), "--offline"]
    before = digest(log_dir)

    # Without a picture, with one of before, and of what is the cluster's own, it is refused.
    assert run(*words).exit_code == 5
    assert run(*words, "--describe", str(early)).exit_code == 5
    os.utime(early)
    assert b"still counts as in sync" in run(*words, "--describe", str(early)).stderr
    metadata = str(node.log_dirs[0] / "__cluster_metadata-0")
    now = describe(cluster, scripts, tmp_path / "now")
    never = run("set-aside", metadata, "--move-to", "x", "--describe", str(now), "--accept-loss", "--apply")
    assert never.exit_code == 5
    assert digest(log_dir) == before

    planned = run(*words, "--describe", str(now))
    assert planned.exit_code == 0, planned.stderr
    assert b'"replicas":[1,3]' in planned.stderr
    assert digest(log_dir) == before
    done = run(*words, "--apply", "--metadata", str(cluster.controller.log_dirs[0]), "--format", "ndjson")
    assert done.exit_code == 0, done.stderr
    journal = next(row["journal"] for row in done.rows if "journal" in row)
    assert not copy.exists()
    assert not (log_dir / CLEAN_MARKER).exists()
    checkpoints = [path.read_text() for path in log_dir.glob("*-checkpoint")]
    assert len(checkpoints) == 4
    assert not any("whole 0" in text for text in checkpoints)

    back = run(
        "set-aside", "--undo", journal, "--backup-dir", str(tmp_path / "aside"), "--apply", "--offline"
    )
    assert back.exit_code == 0, back.stderr
    assert digest(log_dir) == {name: sum for name, sum in before.items() if name != CLEAN_MARKER}
    assert not (tmp_path / "aside").exists()

    assert run(*words, "--describe", str(describe(cluster, scripts, now)), "--apply").exit_code == 0
    node.start()
    cluster.wait_for("whole", in_sync=[1, 2, 3])
    cluster.wait_for("two", in_sync=[2, 3])
    assert everything(cluster, "whole") == acknowledged
    fetched, leading = node.partition_dir("whole"), cluster.nodes[1].partition_dir("whole")
    name = "00000000000000000000.log"
    assert (fetched / name).read_bytes() == (leading / name).read_bytes()
    old = [path.name for path in (tmp_path / "aside" / "whole-0").iterdir()]
    assert name in old
    assert "partition.metadata" in old


def test_a_copy_that_could_be_elected_is_refused_and_without_the_mark_is_not_elected(
    cluster: Cluster, scripts: Path, tmp_path: Path
) -> None:
    """With the mark in place an empty copy was elected, and the good one cut down to it."""
    node, other = cluster.nodes[2], cluster.nodes[3]
    acknowledged = {topic: everything(cluster, topic) for topic in ("two", "one", "whole")}
    node.stop()
    cluster.wait_for("two", in_sync=[3])
    now = describe(cluster, scripts, tmp_path / "now")
    for topic, why in (("two", b"eligible to lead it"), ("one", b"eligible to lead it")):
        words = [
            "set-aside",
            str(node.partition_dir(topic)),
            "--move-to",
            str(tmp_path / "aside"),
            "--offline",
        ]
        refused = run(*words, "--describe", str(now), "--apply")
        assert refused.exit_code == 5
        assert why in refused.stderr
        assert b"holds offsets 0 to 59, up to 60 records" in refused.stderr
        assert node.partition_dir(topic).exists()
    copy = str(node.partition_dir("two"))
    forced = run("set-aside", copy, "--move-to", str(tmp_path / "aside"), "--describe", str(now), "--offline",
                 "--apply", "--accept-loss")  # fmt: skip
    assert forced.exit_code == 0
    other.kill()
    cluster.wait_for("two", leader=-1)
    node.start()
    cluster.wait_for("whole", in_sync=[1, 2])
    cluster.wait_for("two", leader=-1)
    other.start()
    cluster.wait_for("two", leader=3, in_sync=[2, 3])
    cluster.wait_for("whole", in_sync=[1, 2, 3])
    assert {topic: everything(cluster, topic) for topic in acknowledged} == acknowledged


@pytest.mark.soak
@pytest.mark.advice("REASSIGN")
@pytest.mark.advice("DESCRIBE_TOPIC")
def test_the_way_without_surgery_keeps_every_record(cluster: Cluster, scripts: Path, tmp_path: Path) -> None:
    node = cluster.nodes[2]
    acknowledged = everything(cluster, "whole")
    node.stop()
    cluster.wait_for("whole", in_sync=[1, 3])
    now = describe(cluster, scripts, tmp_path / "now")
    shown = run("set-aside", str(node.partition_dir("whole")), "--move-to", "x", "--describe", str(now))
    node.start()
    cluster.wait_for("whole", in_sync=[1, 2, 3])
    away, back = (line for line in shown.stderr.decode().splitlines() if "kafka-reassign" in line)
    place = {"HOST:PORT": cluster.nodes[1].bootstrap}
    follow(away.removeprefix("kafkatool:").strip(), scripts, place)
    cluster.wait_for("whole", in_sync=[1, 3])
    wait_until(lambda: not any((folder / "whole-0").exists() for folder in node.log_dirs), "its copy is gone")
    follow(back.removeprefix("kafkatool:").strip(), scripts, place)
    cluster.wait_for("whole", in_sync=[1, 2, 3])
    told = follow(Advice.DESCRIBE_TOPIC(topic="whole"), scripts, place)
    assert re.search(r"Isr: [123],[123],[123]\s", told), told
    assert everything(cluster, "whole") == acknowledged


@pytest.mark.advice("SET_ASIDE")
@pytest.mark.advice("DESCRIBE")
def test_what_verify_advises_for_a_damaged_copy_is_followed(
    cluster: Cluster, scripts: Path, tmp_path: Path
) -> None:
    """To the letter: the printed command with its placeholders filled in, and --apply."""
    node = cluster.nodes[2]
    acknowledged = everything(cluster, "whole")
    node.stop()
    cluster.wait_for("whole", in_sync=[1, 3])
    log = node.partition_dir("whole") / "00000000000000000000.log"
    flip(log, log.read_bytes().rindex(b"vvv"))
    found = rows_of("verify", log.parent)
    advice = next(row["fix"] for row in found if row["kind"] == "finding" and row["severity"] == "loss")
    assert advice == Advice.SET_ASIDE(where=str(log.parent))
    place = {"HOST:PORT": cluster.nodes[1].bootstrap, "DIR": tmp_path / "aside"}
    follow(advice, scripts, place, more="--offline --apply")
    node.start()
    cluster.wait_for("whole", in_sync=[1, 2, 3])
    assert everything(cluster, "whole") == acknowledged
    shutil.rmtree(tmp_path / "aside")


@pytest.mark.soak
@pytest.mark.advice("DO_WITHOUT")
def test_a_broker_that_misses_a_partition_is_not_elected_once_its_mark_is_gone_as_doctor_says(
    cluster: Cluster, scripts: Path
) -> None:
    """With the mark it would be elected, empty, while the one that has the records is down."""
    node, other = cluster.nodes[2], cluster.nodes[3]
    acknowledged = everything(cluster, "two")
    node.stop()
    cluster.wait_for("two", in_sync=[3])
    log_dir = log_dir_of(node, "two")
    shutil.rmtree(log_dir / "two-0")
    rows = rows_of("doctor", node.root / "server.properties")
    assert rows[-1]["maybe_lost_offsets"] == 60
    [advice] = [row["fix"] for row in rows if row.get("file") == str(log_dir / "two-0")]
    follow(advice, scripts, {})
    assert not (log_dir / CLEAN_MARKER).exists()
    other.kill()
    cluster.wait_for("two", leader=-1)
    node.start()
    cluster.wait_for("whole", in_sync=[1, 2])
    cluster.wait_for("two", leader=-1)
    other.start()
    cluster.wait_for("two", leader=3, in_sync=[2, 3])
    cluster.wait_for("whole", in_sync=[1, 2, 3])
    assert everything(cluster, "two") == acknowledged
