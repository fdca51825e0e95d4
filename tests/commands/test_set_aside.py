"""`kafkatool set-aside` without a broker; tests/kafka/advising/test_set_aside.py asks a cluster."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kafkatool.engine.files.lock import CLEAN_MARKER
from tests.cli import Run, run
from tests.engine.partitions_to_verify import SEGMENT, log_of, write_healthy_log_dir
from tests.mutations import flip

STANDING = "\tTopic: orders\tPartition: 0\tLeader: {}\tReplicas: 1,2\tIsr: {}\tElr: {}\tLastKnownElr: {}\n"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_healthy_log_dir(tmp_path / "logs", isr=[1])


def picture(tmp_path: Path, *standing: object) -> str:
    path = tmp_path / "cluster.txt"
    path.write_text(STANDING.format(*standing))
    return str(path)


def set_aside(log_dir: Path, *words: str) -> Run:
    aside = str(log_dir.parent / "aside")
    return run("set-aside", str(log_dir / "orders-0"), "--move-to", aside, "--offline", *words)


def test_a_copy_that_others_have_goes_and_its_checkpoints_with_it(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / CLEAN_MARKER).write_text("{}")
    done = set_aside(log_dir, "--describe", picture(tmp_path, 2, 2, "", ""), "--apply", "--format", "ndjson")
    assert done.exit_code == 0, done.stderr
    rows = done.rows
    assert rows[-1]["is_applied"]
    assert not (log_dir / "orders-0").exists()
    assert not (log_dir / CLEAN_MARKER).exists()
    assert (log_dir / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert len(list((tmp_path / "aside" / "orders-0").glob("*.log"))) == 3
    assert b"stop no other until node 1 is back in the Isr of orders" in done.stderr


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        ((1, "1,2", "", ""), b"node 1 leads it"),
        ((2, "2", "1", ""), b"eligible to lead it"),
        (("none", "", "2", "1"), b"led it last"),
    ],
)
def test_what_could_lose_records_is_refused_and_the_stake_is_said(
    log_dir: Path, tmp_path: Path, standing: tuple[object, ...], why: bytes
) -> None:
    refused = set_aside(log_dir, "--describe", picture(tmp_path, *standing), "--apply")
    assert refused.exit_code == 5
    assert why in refused.stderr
    assert f"holds offsets 0 to {3 * SEGMENT - 1}".encode() in refused.stderr
    assert (log_dir / "orders-0").is_dir()
    accepted = set_aside(log_dir, "--describe", picture(tmp_path, *standing), "--apply", "--accept-loss")
    assert accepted.exit_code == 0
    assert why in accepted.stderr


def test_a_picture_of_before_the_end_of_the_broker_proves_nothing(log_dir: Path, tmp_path: Path) -> None:
    old = picture(tmp_path, 2, 2, "", "")
    os.utime(old, (1, 1))
    refused = set_aside(log_dir, "--describe", old)
    assert refused.exit_code == 5
    assert b"after the picture of the cluster was taken" in refused.stderr


def test_a_picture_of_some_topics_only_says_nothing_of_the_others(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / "orders-0").rename(log_dir / "users-0")
    refused = run("set-aside", str(log_dir / "users-0"), "--move-to", "x", "--describe",
                  picture(tmp_path, 2, 2, "", ""))  # fmt: skip
    assert b"users-0: the picture of the cluster does not show it" in refused.stderr
    (log_dir / "users-0").rename(log_dir / "orders-0")
    write_healthy_log_dir(tmp_path / "more")
    (tmp_path / "more" / "orders-0").rename(log_dir / "users-0")
    refused = set_aside(log_dir, "--describe", picture(tmp_path, 2, 2, "", ""))
    assert refused.exit_code == 5
    assert b"does not show users-0, which this broker has" in refused.stderr


def test_without_a_picture_only_who_accepts_a_loss_goes_on(log_dir: Path) -> None:
    refused = set_aside(log_dir, "--apply")
    assert refused.exit_code == 5
    assert b"how the rest of the cluster stands is not known" in refused.stderr
    assert (log_dir / "orders-0").is_dir()
    assert set_aside(log_dir, "--apply", "--accept-loss").exit_code == 0
    assert not (log_dir / "orders-0").exists()


def test_a_checkpoint_that_cannot_be_read_is_named(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / "log-start-offset-checkpoint").write_text("0\nmany\n")
    done = set_aside(log_dir, "--describe", picture(tmp_path, 2, 2, "", ""), "--apply")
    assert done.exit_code == 3
    assert f"{log_dir}/log-start-offset-checkpoint: ".encode() in done.stderr
    assert (log_dir / "orders-0").is_dir()


def test_what_is_no_partition_or_no_picture_is_refused(log_dir: Path, tmp_path: Path) -> None:
    good = picture(tmp_path, 2, 2, "", "")
    for words, code in (
        ((str(log_dir), "--move-to", "x", "--describe", good), 2),
        ((str(log_dir / "__cluster_metadata-0"), "--move-to", "x", "--describe", good), 5),
        ((str(log_dir / "orders-0"), "--describe", good), 2),
        ((str(log_dir / "orders-0"), "--move-to", "x", "--describe", good, "--metadata", str(log_dir)), 2),
        ((str(log_dir / "orders-0"), "--move-to", str(log_dir / "x"), "--describe", good, "--apply"), 5),
    ):
        assert run("set-aside", *words, "--offline").exit_code == code, words
    (tmp_path / "cluster.txt").write_text("nothing of the kind\n")
    assert set_aside(log_dir, "--describe", good).exit_code == 5
    (tmp_path / "link-0").symlink_to(log_dir / "orders-0")
    assert run("set-aside", str(tmp_path / "link-0"), "--move-to", "x", "--describe", good).exit_code == 2


def test_before_the_mark_of_a_clean_shutdown_goes_what_hangs_on_the_broker_alone_is_named(
    log_dir: Path,
) -> None:
    """A warning, not a refusal: repair must go on."""
    flip(log_of(log_dir, 2), 100)
    (log_dir / CLEAN_MARKER).write_text("{}")
    warning = b"orders-0: no other node than 1 was in sync"
    assert warning in run("recover", str(log_dir)).stderr
    done = run("recover", "--apply", "--offline", str(log_dir))
    assert done.exit_code == 0
    assert warning in done.stderr
    assert not (log_dir / CLEAN_MARKER).exists()
    assert warning not in run("rebuild-index", "--force", str(log_dir)).stderr  # it is gone already


# --- a partition that a broker has twice --------------------------------------------------------------------


@pytest.fixture
def copied(log_dir: Path, tmp_path: Path) -> Path:
    """Another log directory of the same broker, with a copy."""
    other = tmp_path / "other"
    (other / "orders-0").mkdir(parents=True)
    shutil.copy(log_dir / "meta.properties", other)
    shutil.copytree(log_dir / "orders-0", other / "orders-0", dirs_exist_ok=True)
    return other / "orders-0"


def test_one_of_two_copies_goes_without_a_picture_of_the_cluster(log_dir: Path, copied: Path) -> None:
    done = set_aside(log_dir, "--second-copy", str(copied), "--apply")
    assert done.exit_code == 0, done.stderr
    assert not (log_dir / "orders-0").exists()
    assert copied.exists()
    assert b"stop no other" not in done.stderr


def test_a_copy_with_batches_of_its_own_stays_and_the_other_way_round_is_named(
    log_dir: Path, copied: Path
) -> None:
    last = max(copied.glob("*.log"))
    os.truncate(last, last.stat().st_size - 1)
    flip(copied / f"{0:020d}.log", 70)
    refused = set_aside(log_dir, "--second-copy", str(copied), "--apply")
    assert refused.exit_code == 5
    assert b": 2 batches, from offset 0 to " in refused.stderr
    assert (
        f"kafkatool set-aside {copied} --second-copy {log_dir}/orders-0 --move-to".encode() in refused.stderr
    )
    other_way = run("set-aside", str(copied), "--second-copy", str(log_dir / "orders-0"), "--offline",
                    "--move-to", str(log_dir.parent / "aside"), "--apply")  # fmt: skip
    assert other_way.exit_code == 0, other_way.stderr
    assert (log_dir / "orders-0").exists()


def test_a_second_copy_is_of_the_same_partition_and_broker(log_dir: Path, copied: Path) -> None:
    assert b"is the copy itself" in set_aside(log_dir, "--second-copy", str(log_dir / "orders-0")).stderr
    (copied.parent / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=9\n")
    assert b"not known to be of the same broker" in set_aside(log_dir, "--second-copy", str(copied)).stderr
    shutil.copytree(copied, copied.with_name("users-0"))
    other = set_aside(log_dir, "--second-copy", str(copied.with_name("users-0")))
    assert other.exit_code == 5
    assert b"is not a copy of orders-0" in other.stderr
    both = set_aside(log_dir, "--second-copy", str(copied), "--describe", "-")
    assert both.exit_code == 2


def test_a_second_copy_whose_checkpoint_hides_records_does_not_make_up_for_the_other(
    log_dir: Path, copied: Path
) -> None:
    (copied.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 999\n")
    refused = set_aside(log_dir, "--second-copy", str(copied), "--apply")
    assert refused.exit_code == 5
    assert b"begins at offset 999 only" in refused.stderr
    assert (log_dir / "orders-0").is_dir()
