"""The classes of a Kafka release as a JVM keeps them in memory, written to a file once.

A broker loads some 8,000 classes before it serves. Mapped from such an archive they are there at once: it
starts in half the time, and takes half the processor time. Without one, everything works as well.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from tests.kafka import peers


def archive(version: str) -> Path:
    """Where it is kept; another Java or other jars have another one."""
    java = os.stat(os.path.realpath(peers.require_java()))
    made_of = f"{java.st_mtime_ns} {java.st_size} {peers.classpath(version)}"
    name = f"{version}-{sha256(made_of.encode()).hexdigest()[:16]}.jsa"
    return peers.cache_dir() / "archives" / name


def flags(version: str) -> list[str]:
    """For a JVM whose class path begins with that of the release."""
    found = archive(version)
    # A JVM that cannot use it says so on its standard output, where nobody wants to read it.
    return [f"-XX:SharedArchiveFile={found}", "-Xlog:disable"] if found.exists() else []


def make(version: str) -> None:
    """Have a broker write it when it ends, unless it is there."""
    from tests.kafka.broker import Broker

    target = archive(version)
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}")
    with Broker(version, java_options=[f"-XX:ArchiveClassesAtExit={unfinished}"]) as broker:
        broker.client.create_topic("archived")
        broker.stop()
    unfinished.replace(target)
