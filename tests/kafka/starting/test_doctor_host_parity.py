"""What `doctor` says of a host is what a broker then meets: limits, permissions, full and read-only volumes.

And how long it takes to recover. Needs the rights to mount and to give files away; skips without.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.engine.cold import evict
from tests.kafka import peers
from tests.kafka.broker import GOES_OFFLINE, Broker, BrokerFailedError
from tests.kafka.diagnoses import diagnose
from tests.kafka.kafka_scripts import follow, write_scripts
from tests.kafka.librdkafka import Record, wait_until

pytestmark = [pytest.mark.peer, pytest.mark.soak, pytest.mark.xdist_group("recover")]

TOPIC = "hosted"
PARTITIONS = 200
OWNER, USER = 4242, 4243
"""Two whom nobody here is."""


class Wrapped(Broker):
    """A broker that is started by another program, which changes what it may do."""

    def __init__(self, version: str, settings: dict[str, str], *, log_dirs: int) -> None:
        super().__init__(version, settings, log_dirs=log_dirs)
        self.wrapper: list[str] = []

    def _java(self, *words: str) -> list[str]:
        return [*self.wrapper, *super()._java(*words)]


@pytest.fixture(scope="module", params=[peers.NEWEST, peers.OLDEST])
def stopped(request: pytest.FixtureRequest) -> Iterator[Wrapped]:
    if os.geteuid() != 0 or shutil.which("prlimit") is None or shutil.which("setpriv") is None:
        pytest.skip("only root may change what a host grants")
    peers.require_kafka(request.param)
    with Wrapped(request.param, {"log.index.size.max.bytes": "1200"}, log_dirs=2) as broker:
        broker.client.create_topic(TOPIC, {}, partitions=PARTITIONS)
        broker.client.produce(TOPIC, [Record(b"k", b"v")])
        broker.stop()
        for directory in broker.log_dirs:
            shutil.copytree(directory, broker.root / f"pristine-{directory.name}")
        yield broker


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scripts(tmp_path_factory.mktemp("scripts"))


def restore(broker: Wrapped) -> None:
    broker.wrapper = []
    for directory in broker.log_dirs:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(broker.root / f"pristine-{directory.name}", directory)
        (directory / ".kafka_cleanshutdown").unlink()


def configuration(broker: Broker) -> str:
    return str(broker.root / "server.properties")


def goes_offline(broker: Broker, directory: Path) -> bool:
    """Start, and see whether a directory is left out; BrokerFailedError where there is no start."""
    said = broker.log_file.stat().st_size
    words = [f"{text} {directory}".encode() for text in GOES_OFFLINE]

    def is_out() -> bool:
        return any(word in broker.log_file.read_bytes()[said:] for word in words)

    broker.start()
    try:
        with suppress(TimeoutError):
            wait_until(is_out, "an offline directory")
        return is_out()
    finally:
        broker.kill()


@pytest.mark.parametrize(("spare", "verdict"), [(-150, "no_start"), (150, "starts")])
def test_a_limit_of_open_files_stops_a_broker_as_doctor_says(
    stopped: Wrapped, spare: int, verdict: str
) -> None:
    """Around what doctor says is needed: the broker's own share of it is a rough figure."""
    restore(stopped)
    told = diagnose("--nofile", "1", configuration(stopped))
    needed = int(re.search(r"about (\d+) open files", str(told.findings[0]["message"]))[1])  # type: ignore[index]
    limit = needed + spare
    assert diagnose("--nofile", str(limit), configuration(stopped)).verdict == verdict
    stopped.wrapper = ["prlimit", f"--nofile={limit}:{limit}"]
    if verdict == "no_start":
        with pytest.raises(BrokerFailedError):
            stopped.start()
    else:
        stopped.start()
        stopped.kill()


@pytest.mark.parametrize(
    ("name", "directory", "verdict"),
    [
        ("{partition}/00000000000000000000.log", 1, "partly"),
        ("{partition}/00000000000000000000.log", 0, "no_start"),
        ("recovery-point-offset-checkpoint", 1, "partly"),
        ("meta.properties", 1, "partly"),
        ("{partition}", 1, "partly"),
    ],
)
def test_a_file_that_the_user_may_not_open_costs_the_directory_as_doctor_says(
    stopped: Wrapped, name: str, directory: int, verdict: str
) -> None:
    """The broker is root without the right to open everything; doctor asks for somebody as powerless."""
    restore(stopped)
    for path in (stopped.root, *stopped.root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    where = stopped.log_dirs[directory]
    path = where / name.format(partition=min(where.glob(f"{TOPIC}-*")).name)
    path.chmod(0o700 if path.is_dir() else 0o600)
    os.chown(path, OWNER, OWNER)
    assert diagnose("--user", str(USER), configuration(stopped)).verdict == verdict
    stopped.wrapper = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    if verdict == "no_start":
        with pytest.raises(BrokerFailedError):
            stopped.start()
    else:
        assert goes_offline(stopped, where)


@contextmanager
def volume(directory: Path, size: int) -> Iterator[None]:
    """Move a directory to a volume of its own, of this size."""
    aside = directory.with_name("aside")
    directory.rename(aside)
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("nothing may be mounted here")
    try:
        shutil.copytree(aside, directory, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)
        directory.rmdir()
        shutil.rmtree(aside)


def test_a_full_volume_is_left_out_as_doctor_says(stopped: Wrapped) -> None:
    restore(stopped)
    second = stopped.log_dirs[1]
    with volume(second, 16 << 20):
        with suppress(OSError), (second / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(4096)) == 4096:
                pass
        found = diagnose(configuration(stopped))
        assert (found.verdict, found.row["offline_dirs"]) == ("partly", [str(second)])
        assert goes_offline(stopped, second)


def test_a_read_only_volume_is_left_out_as_doctor_says(stopped: Wrapped) -> None:
    restore(stopped)
    second = stopped.log_dirs[1]
    with volume(second, 64 << 20):
        subprocess.run(["mount", "-o", "remount,ro", str(second)], check=True)
        assert diagnose(configuration(stopped)).verdict == "partly"
        assert goes_offline(stopped, second)


# --- the advice ---------------------------------------------------------------------------------------------


def advice_of(broker: Broker, name: str, *arguments: str) -> str:
    """What doctor says to do, of this beginning."""
    found = diagnose(*arguments, configuration(broker)).findings
    return next(str(row["fix"]) for row in found if str(row["fix"]).startswith(name))


def starts_with_everything(broker: Wrapped) -> None:
    """It starts, leaves no directory out, and every record is there."""
    broker.start()
    try:
        found = broker.client.consume_all(TOPIC, range(PARTITIONS))
        assert sum(map(len, found.values())) == 1
    finally:
        broker.kill()


@pytest.mark.advice("OWN_DIRECTORY")
def test_a_directory_that_is_given_to_its_user_is_opened(stopped: Wrapped, scripts: Path) -> None:
    restore(stopped)
    second = stopped.log_dirs[1]
    for path in (second, *second.rglob("*")):
        os.chown(path, OWNER, OWNER)
        path.chmod(0o700 if path.is_dir() else 0o600)
    for path in (stopped.root, stopped.log_dirs[0], *stopped.log_dirs[0].rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    follow(advice_of(stopped, "chown", "--user", str(USER)), scripts, {})
    assert diagnose("--user", str(USER), configuration(stopped)).verdict == "starts"
    starts_with_everything(stopped)


@pytest.mark.advice("RAISE_NOFILE")
def test_a_broker_starts_with_the_limit_that_doctor_names(stopped: Wrapped, scripts: Path) -> None:
    restore(stopped)
    advice = advice_of(stopped, "ulimit", "--nofile", "20")
    stopped.wrapper = ["bash", "-c", f'{advice.partition("  # ")[0]}; exec "$@"', "bash"]
    starts_with_everything(stopped)


@pytest.mark.advice("REMOUNT_WRITABLE")
def test_a_volume_that_is_mounted_writable_again_is_used(stopped: Wrapped, scripts: Path) -> None:
    restore(stopped)
    second = stopped.log_dirs[1]
    with volume(second, 64 << 20):
        subprocess.run(["mount", "-o", "remount,ro", str(second)], check=True)
        advice = advice_of(stopped, "dmesg")
        follow(advice.partition("; then ")[2], scripts, {})
        starts_with_everything(stopped)


def test_recovery_takes_as_long_as_doctor_says() -> None:
    """Half a GiB that was never flushed, from the disk."""
    peers.require_kafka(peers.NEWEST)
    with Broker() as broker:
        broker.client.create_topic(TOPIC, {}, partitions=4)
        values = [Record(None, os.urandom(1 << 16)) for _ in range(1 << 10)]
        for partition in (0, 1, 2, 3):
            for _ in range(2):
                broker.client.produce(TOPIC, values, partition=partition)
        broker.kill()
        for path in broker.log_dir.rglob("*.log"):
            evict(path)
        row = diagnose(configuration(broker)).row
        size, rate, least, most = map(
            row.get, ("scan_size", "read_rate", "recovery_least_ms", "recovery_most_ms")
        )
        assert isinstance(size, int)
        assert size > 500 << 20
        if rate is None:
            pytest.skip("nothing leaves the page cache here")
        assert isinstance(least, int)
        assert isinstance(most, int)
        for path in broker.log_dir.rglob("*.log"):
            evict(path)
        said = broker.log_file.stat().st_size
        broker.start()
        broker.kill()
        text = broker.log_file.read_bytes()[said:].decode()
        (taken,) = re.findall(r"Loaded \d+ logs in (\d+)ms", text)
        assert least <= int(taken) <= most, rate
