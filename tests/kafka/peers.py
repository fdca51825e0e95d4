"""The programs our tests are measured against: found in a cache, fetched once, never required to exist.

Kafka's jars live in `$KAFKATOOL_PEERS/kafka/<release>/` (default: the user's cache directory), put there by
Maven from `pom.xml`. A release counts as present when its `complete.json` lists jars that are all there with
the sizes they had, so that a download cut short is fetched again.

    python -m tests.kafka.peers        fetch everything that can be had; say what cannot
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

RELEASES = ("3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1")
OLDEST, NEWEST = RELEASES[0], RELEASES[-1]
KAFKAJS = "kafkajs@2.2.4"

# The plugin that keeps remote segments in a local directory is only in Kafka's test jars.
TIERED = "tiered"
MIRROR = "mirror"
# Of this release only the clients are out: their definitions tell what is coming.
CLIENTS = "clients"
NEXT_CLIENTS = "4.4.0"

# Program -> the Debian package that brings it.
PROGRAMS = {
    "kcat": "kcat",
    "vmtouch": "vmtouch",
    "fincore": "util-linux-extra",
    "fio": "fio",
    "jq": "jq",
    "zsh": "zsh",
    "fish": "fish",
    "chromium": "chromium",
}

_POM = Path(__file__).with_name("pom.xml")
_MARKER = "complete.json"
_FETCH_SECONDS = 900


class PeerMissingError(Exception):
    """This peer cannot be had on this machine; the message says why."""


def cache_dir() -> Path:
    """Where peers are kept between runs."""
    if chosen := os.environ.get("KAFKATOOL_PEERS"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kafkatool"


def kafka_jars(version: str, profile: str = "release") -> list[Path]:
    """The jars of one release, fetched if not complete; raise PeerMissingError if they cannot be had."""
    require_java()
    target = cache_dir() / "kafka" / version
    if profile != "release":
        target = target / profile
    if not _is_complete(target):
        with _locked(target):
            if not _is_complete(target):
                _fetch(version, profile, target)
    # Two loggers would fight over the same name.
    return sorted(jar for jar in target.glob("*.jar") if not jar.name.startswith("slf4j-reload4j"))


def classpath(version: str, *profiles: str) -> str:
    """The Java class path of one release; `tiered` adds the tiered-storage plugin."""
    jars = [jar for profile in ("release", *profiles) for jar in kafka_jars(version, profile)]
    return os.pathsep.join(map(str, jars))


def require_java() -> str:
    """The path of `java`; raise PeerMissingError without one."""
    java = shutil.which("java")
    if java is None:
        raise PeerMissingError("there is no java on the PATH (Java 17 is needed)")
    return java


def require_kafka(version: str) -> str:
    """For tests: the class path of a release, or skip the test (fail it under KAFKATOOL_REQUIRE_PEERS=1)."""
    try:
        return classpath(version)
    except PeerMissingError as reason:
        skip_or_fail(f"Kafka {version}: {reason}")


def require_clients(version: str) -> None:
    """For tests: the clients alone of a release, or skip (fail under KAFKATOOL_REQUIRE_PEERS=1)."""
    try:
        kafka_jars(version, CLIENTS)
    except PeerMissingError as reason:
        skip_or_fail(f"the clients of Kafka {version}: {reason}")


def require_program(name: str) -> str:
    """For tests: the path of a program such as kcat, or skip (fail under KAFKATOOL_REQUIRE_PEERS=1)."""
    path = shutil.which(name)
    if path is None:
        skip_or_fail(f"there is no {name} on the PATH")
    return path


def require_kafkajs() -> tuple[str, Path]:
    """For tests: node, and the folder of modules with kafkajs in it; or skip (fail …)."""
    node, folder = require_program("node"), _kafkajs_folder()
    if not (folder / "kafkajs").is_dir():
        skip_or_fail(f"there is no kafkajs in {folder}: make peers")
    return node, folder


def _kafkajs_folder() -> Path:
    return cache_dir() / "kafkajs" / "node_modules"


def _fetch_kafkajs() -> None:
    if (_kafkajs_folder() / "kafkajs").is_dir():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise PeerMissingError("there is no npm on the PATH to fetch it")
    target = _kafkajs_folder().parent
    target.mkdir(parents=True, exist_ok=True)
    words = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(target), KAFKAJS]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_FETCH_SECONDS, cwd=target)
    except subprocess.TimeoutExpired:
        raise PeerMissingError(f"npm did not finish in {_FETCH_SECONDS} s") from None
    if done.returncode != 0:
        raise PeerMissingError(f"npm failed: {done.stderr.strip().splitlines()[:1]}")


def skip_or_fail(reason: str) -> NoReturn:
    """A missing peer skips a test on a developer's machine and fails it in CI."""
    import pytest

    if os.environ.get("KAFKATOOL_REQUIRE_PEERS") == "1":
        pytest.fail(f"a peer is missing, and KAFKATOOL_REQUIRE_PEERS=1: {reason}", pytrace=False)
    pytest.skip(reason)


def _is_complete(target: Path) -> bool:
    try:
        sizes: dict[str, int] = json.loads((target / _MARKER).read_text())
        return bool(sizes) and all((target / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def _fetch(version: str, profile: str, target: Path) -> None:
    """Let Maven copy what is missing; jars already there and whole are kept (a JVM may be using them)."""
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissingError(f"{target} is not complete and there is no mvn on the PATH to fetch it")
    for jar in target.glob("*.jar"):
        if not _is_whole(jar):
            jar.unlink()
    command = [maven, "-q", "-B", "-f", str(_POM), f"-Dkafka.version={version}", f"-P{profile}"]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        raise PeerMissingError(f"Maven did not finish in {_FETCH_SECONDS} s") from None
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise PeerMissingError("Maven failed: " + (lines[0] if lines else f"exit {done.returncode}"))
    _write_marker(target)


def _write_marker(target: Path) -> None:
    jars = sorted(target.glob("*.jar"))
    broken = [jar.name for jar in jars if not _is_whole(jar)]
    if broken or not jars:
        raise PeerMissingError(f"Maven left broken jars: {', '.join(broken) or 'none at all'}")
    temporary = target / f"{_MARKER}.{os.getpid()}"
    temporary.write_text(json.dumps({jar.name: jar.stat().st_size for jar in jars}, indent=1))
    temporary.replace(target / _MARKER)


def _is_whole(jar: Path) -> bool:
    # The directory of a zip file is at its end: a download cut short has none.
    return zipfile.is_zipfile(jar)


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """One process fetches, the others wait for it."""
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".fetching").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch_program(name: str, package: str) -> None:
    if shutil.which(name) is not None:
        return
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise PeerMissingError(f"install the Debian package {package} (needs root)")
    install = ["install", "-y", "-q", "--no-install-recommends", package]
    for arguments in (install, ["update", "-q"], install):
        subprocess.run([apt, *arguments], capture_output=True, timeout=_FETCH_SECONDS)
        if shutil.which(name) is not None:
            return
    raise PeerMissingError(f"apt-get could not install {package}")


def fetch_all() -> bool:
    """Fetch every peer; report each; true when all are there."""
    jobs: list[tuple[str, Callable[[], object]]] = []
    jobs += [(f"Kafka {version}", partial(kafka_jars, version)) for version in RELEASES]
    both = (OLDEST, NEWEST)
    jobs += [(f"Kafka {version} tiered", partial(kafka_jars, version, TIERED)) for version in both]
    jobs += [(name, partial(_fetch_program, name, package)) for name, package in PROGRAMS.items()]
    jobs += [(f"Kafka {NEWEST} mirror", partial(kafka_jars, NEWEST, MIRROR)), ("kafkajs", _fetch_kafkajs)]
    jobs += [(f"Kafka {NEXT_CLIENTS} clients", partial(kafka_jars, NEXT_CLIENTS, CLIENTS))]
    jobs += [(f"classes of Kafka {version}", partial(_archive_classes, version)) for version in both]
    return min(_attempt(what, fetch) for what, fetch in jobs)  # no short cut: each is tried


def _archive_classes(version: str) -> None:
    from tests.kafka import class_archive
    from tests.kafka.broker import BrokerFailedError

    try:
        class_archive.make(version)
    except (BrokerFailedError, OSError) as error:
        raise PeerMissingError(f"its brokers will start more slowly: {error}") from error


def _attempt(what: str, fetch: Callable[[], object]) -> bool:
    try:
        fetch()
    except PeerMissingError as reason:
        print(f"{what}: {reason}", file=sys.stderr)
        return False
    print(f"{what}: ready", file=sys.stderr)
    return True


if __name__ == "__main__":
    fetch_all()  # best effort: a missing peer is said, and is no failure here
