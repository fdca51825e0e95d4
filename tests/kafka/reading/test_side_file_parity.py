"""Our text for index files and producer states is that of Kafka's own tool, be they right or spoilt."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kafkatool.commands.dump_log.classic.options import ClassicOptions
from kafkatool.format.release import Release
from tests.commands.dump_log.classic.side_file_cases import DUMPS, Segment, damage, dump, right_segment
from tests.kafka import dump_tool, peers

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("dump tool")]

# Which files a spoilt one is judged by.
BESIDE = {
    ".index": [".log", ".index"],
    ".timeindex": [".log", ".index", ".timeindex"],
    ".txnindex": [".txnindex"],
    ".snapshot": [".snapshot"],
}


def _options(chance: random.Random, release: Release) -> tuple[list[str], ClassicOptions]:
    mode = chance.choice(["", "", "", "verify", "sanity", "size"])
    if mode == "verify":
        return ["--verify-index-only"], ClassicOptions(release, verify_index_only=True)
    if mode == "sanity":
        return ["--index-sanity-check"], ClassicOptions(release, index_sanity_check=True)
    if mode == "size":
        size = chance.choice([1, 17, 18, 90, 120])
        return ["--max-message-size", str(size)], ClassicOptions(release, max_message_size=size)
    return [], ClassicOptions(release)


def _contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


def compare(version: str, seed: int, segment: Segment, extension: str, directory: Path) -> bool:
    """Dump with both; True if Kafka came to the end. Its tool changes the files, ours must not."""
    segment.write(directory)
    path = segment.path(directory, extension)
    flags, options = _options(random.Random(seed), Release.parse(version))
    before = _contents(directory)
    ours = dump([path], options)
    assert _contents(directory) == before
    kafka = dump_tool.shared(version).run(["--files", path, *flags])
    shutil.rmtree(directory)
    case = f"seed {seed}, {extension} {flags}, {version}: {kafka.exception}"
    if kafka.exception is not None:
        assert ours.stdout.startswith(kafka.stdout), case
        reads_on = version == peers.NEWEST and extension == ".timeindex"
        assert ours.notes or reads_on or "--max-message-size" in flags, case
        return False
    assert ours.stdout == kafka.stdout, case
    assert ours.stderr == kafka.stderr, case
    return True


def compare_many(version: str, seeds: range, extension: str, tmp_path: Path) -> int:
    """Compare one segment for each seed; every fourth is left as it should be."""
    finished = 0
    for seed in seeds:
        chance = random.Random(seed)
        segment = right_segment(chance)
        if seed % 4:
            damage(
                chance, segment, chance.sample(BESIDE[extension], chance.randint(1, len(BESIDE[extension])))
            )
        finished += compare(version, seed, segment, extension, tmp_path / str(seed))
    return finished


@pytest.mark.parametrize("version", peers.RELEASES)
@pytest.mark.parametrize("extension", DUMPS)
def test_side_files_are_dumped_as_kafka_dumps_them(version: str, extension: str, tmp_path: Path) -> None:
    peers.require_kafka(version)
    assert compare_many(version, range(120), extension, tmp_path) > 40


@pytest.mark.soak
@pytest.mark.parametrize("version", peers.RELEASES)
@pytest.mark.parametrize("extension", DUMPS)
def test_many_side_files_are_dumped_as_kafka_dumps_them(version: str, extension: str, tmp_path: Path) -> None:
    peers.require_kafka(version)
    assert compare_many(version, range(1000, 3000), extension, tmp_path) > 600


@pytest.mark.parametrize("version", peers.RELEASES)
def test_reports_come_in_kafkas_order(version: str, tmp_path: Path) -> None:
    """A run over an index and a time index that both lie: every report at once."""
    peers.require_kafka(version)
    chance = random.Random(1)
    segment = right_segment(chance, 100)
    while len(segment.files[".timeindex"]) < 36 or len(segment.files[".index"]) < 24:
        segment = right_segment(chance, 100)
    times = [
        segment.files[".timeindex"][at : at + 12] for at in range(0, len(segment.files[".timeindex"]), 12)
    ]
    offsets = [segment.files[".index"][at : at + 8] for at in range(0, len(segment.files[".index"]), 8)]
    late = (2**40).to_bytes(8, "big") + times[0][8:]
    nowhere = times[1][:8] + (5000).to_bytes(4, "big")
    segment.files[".timeindex"] = b"".join([times[1], times[0], late, *times, nowhere])
    shifted = [entry[:3] + bytes([entry[3] ^ 1]) + entry[4:] for entry in offsets]
    segment.files[".index"] = b"".join(shifted + shifted[:1])
    segment.write(tmp_path)
    paths = [segment.path(tmp_path, extension) for extension in (".timeindex", ".index")]
    ours = dump(paths, ClassicOptions(Release.parse(version)))
    kafka = dump_tool.shared(version).run(["--files", ",".join(paths)])
    assert kafka.exception is None
    assert (ours.stdout, ours.stderr) == (kafka.stdout, kafka.stderr)
    for title in (b"Mismatches in", b"timestamp mismatch", b"out of order", b"not found in"):
        assert title in ours.stderr
