"""The classic text of side files where Kafka's own tool is not asked: damage, read-only, size."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.commands.dump_log.classic.java_paths import java_absolute_path, java_path
from kafkatool.commands.dump_log.classic.options import ClassicOptions
from kafkatool.commands.dump_log.classic.reports import Reports
from kafkatool.commands.dump_log.classic.state_files import corrupt_message
from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.format import offset_index, time_index
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.release import Release
from kafkatool.format.state.producer_snapshot import write_snapshot
from kafkatool.format.time_index import TimeEntry
from tests.commands.dump_log.classic.side_file_cases import DUMPS, dump, right_segment
from tests.mutations import put

OPTIONS = ClassicOptions()


def segment(directory: Path, count: int = 10) -> list[int]:
    """A log of single-record batches at offsets 100, 101 …; returns their positions."""
    batches = [write_batch([NewRecord(None, b"v", 1000 + i)], base_offset=100 + i) for i in range(count)]
    (directory / segment_file(100, ".log")).write_bytes(b"".join(batches))
    return [sum(map(len, batches[:i])) for i in range(count)]


def write(directory: Path, extension: str, content: bytes) -> str:
    path = directory / segment_file(100, extension)
    path.write_bytes(content)
    return str(path)


def kinds(printed: object) -> list[FindingClass]:
    return [damage.kind for damage in printed.notes]  # type: ignore[attr-defined]


def test_a_right_index_is_printed_without_a_word(tmp_path: Path) -> None:
    positions = segment(tmp_path)
    path = write(tmp_path, ".index", offset_index.write_entries(OffsetEntry(i, positions[i]) for i in (3, 6)))
    printed = dump([path], OPTIONS)
    lines = [f"offset: {100 + i} position: {positions[i]}" for i in (3, 6)]
    assert printed.stdout.decode() == "\n".join([f"Dumping {path}", *lines, ""])
    assert not printed.err
    assert not printed.notes


def test_entries_that_lead_nowhere_are_one_damage_and_the_rest_follows(tmp_path: Path) -> None:
    positions = segment(tmp_path)
    entries = [
        OffsetEntry(3, positions[3]),
        OffsetEntry(4, 5000),
        OffsetEntry(5, 6000),
        OffsetEntry(6, positions[6]),
    ]
    path = write(tmp_path, ".index", offset_index.write_entries(entries))
    printed = dump([path], OPTIONS)
    assert printed.stdout.count(b"\n") == 5
    (damage,) = printed.notes
    assert (damage.kind, damage.position, damage.end_position) == (FindingClass.STALE_INDEX, 8, 24)
    assert (damage.first_offset, damage.last_offset) == (104, 105)


def test_entries_behind_a_hole_of_zeros_are_told_of(tmp_path: Path) -> None:
    positions = segment(tmp_path)
    hole = offset_index.write_entries(
        [OffsetEntry(3, positions[3]), OffsetEntry(0, 0), OffsetEntry(6, positions[6])]
    )
    assert kinds(dump([write(tmp_path, ".index", hole)], OPTIONS)) == [FindingClass.BAD_INDEX]
    tail = offset_index.write_entries([OffsetEntry(3, positions[3])]) + bytes(4096)
    assert kinds(dump([write(tmp_path, ".index", tail)], OPTIONS)) == []


def test_a_partial_entry_is_a_note_only(tmp_path: Path) -> None:
    positions = segment(tmp_path)
    torn = offset_index.write_entries([OffsetEntry(3, positions[3])]) + b"\0\0\0"
    (damage,) = dump([write(tmp_path, ".index", torn)], OPTIONS).notes
    assert (damage.kind, damage.severity) == (FindingClass.TORN_TAIL, Severity.NOTE)


@pytest.mark.parametrize("extension", [".index", ".timeindex"])
def test_a_missing_log_is_noted_and_the_index_printed(extension: str, tmp_path: Path) -> None:
    content = {
        ".index": offset_index.write_entries([OffsetEntry(1, 70)]),
        ".timeindex": time_index.write_entries([TimeEntry(1001, 1)]),
    }
    path = write(tmp_path, extension, content[extension])
    printed = dump([path], OPTIONS)
    assert printed.stdout.count(b"\n") == 2
    assert set(kinds(printed)) == {FindingClass.MISSING_FILE}
    assert os.listdir(tmp_path) == [os.path.basename(path)]


def test_a_cached_remote_index_needs_no_log(tmp_path: Path) -> None:
    path = tmp_path / "100_AAAAAAAAAAAAAAAAAAAAAQ.index"
    path.write_bytes(offset_index.write_entries([OffsetEntry(1, 70)]))
    printed = dump([str(path)], OPTIONS)
    assert printed.stdout.endswith(b"\noffset: 101 position: 70\n")
    assert not printed.notes


@pytest.mark.parametrize("extension", DUMPS)
def test_a_missing_file_is_noted(extension: str, tmp_path: Path) -> None:
    assert FindingClass.MISSING_FILE in kinds(dump([str(tmp_path / f"100{extension}")], OPTIONS))


@pytest.mark.parametrize("extension", [".index", ".timeindex", ".txnindex"])
def test_a_name_without_an_offset_is_noted(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"copy{extension}"
    path.write_bytes(bytes(34))
    assert kinds(dump([str(path)], OPTIONS)) == [FindingClass.BAD_INDEX]


@pytest.mark.parametrize("extension", [".index", ".timeindex"])
def test_a_failed_sanity_check_is_damage_instead_of_a_line(extension: str, tmp_path: Path) -> None:
    segment(tmp_path)
    write(tmp_path, ".index", b"")
    path = write(tmp_path, extension, b"\xff" * 25)
    printed = dump([path], ClassicOptions(index_sanity_check=True))
    assert printed.stdout.decode() == f"Dumping {path}\n"
    assert kinds(printed) == [FindingClass.BAD_INDEX]


def test_damage_in_the_log_does_not_stop_a_time_index(tmp_path: Path) -> None:
    positions = segment(tmp_path)
    put(tmp_path / segment_file(100, ".log"), positions[5] + 8, bytes(4))
    write(tmp_path, ".index", b"")
    path = write(
        tmp_path, ".timeindex", time_index.write_entries(TimeEntry(1000 + i, i) for i in range(1, 9))
    )
    printed = dump([path], OPTIONS)
    assert printed.stdout.count(b"\n") == 9
    (damage,) = printed.notes
    assert (damage.first_offset, damage.last_offset) == (105, 108)
    assert not printed.err


def test_a_time_index_over_an_empty_offset_index_is_checked_in_one_walk(tmp_path: Path) -> None:
    count = 3000
    segment(tmp_path, count)
    write(tmp_path, ".index", b"")
    path = write(
        tmp_path, ".timeindex", time_index.write_entries(TimeEntry(1000 + i, i) for i in range(1, count))
    )
    start = time.process_time()
    printed = dump([path], OPTIONS)
    assert not printed.err
    assert time.process_time() - start < 2


def test_a_corrupt_producer_state_is_said_as_kafka_says_it_and_noted(tmp_path: Path) -> None:
    path = write(tmp_path, ".snapshot", write_snapshot([]) + b"\0")
    printed = dump([path], OPTIONS)
    assert printed.err[0].startswith("Snapshot is corrupt (CRC is no longer valid). Stored crc: 1214729159.")
    assert kinds(printed) == [FindingClass.BAD_SNAPSHOT]


@given(st.binary(max_size=80), st.sampled_from(Release))
def test_any_bytes_are_a_producer_state_or_have_a_message(buf: bytes, release: Release) -> None:
    assert corrupt_message(buf, release) is not None or len(buf) >= 10


def test_a_version_is_judged_first_from_4_0_on() -> None:
    both_wrong = b"\0\2" + bytes(8)
    assert corrupt_message(both_wrong, Release.V3_9) == "Snapshot contained an unknown file version 2"
    newer = corrupt_message(both_wrong[:5], Release.V4_0)
    assert newer == "Snapshot failed schema validation: Snapshot contained an unknown file version 2"
    older = corrupt_message(both_wrong[:5], Release.V3_9)
    assert older == (
        "Snapshot failed schema validation: Error reading field 'crc': java.nio.BufferUnderflowException"
    )


@pytest.mark.parametrize("extension", DUMPS)
def test_nothing_is_written_even_where_it_is_forbidden(extension: str, tmp_path: Path) -> None:
    case = right_segment(random.Random(5))
    case.files.pop(".index") if extension == ".timeindex" else None
    case.write(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    tmp_path.chmod(0o555)
    try:
        dump([case.path(tmp_path, extension)], OPTIONS)
    finally:
        tmp_path.chmod(0o755)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_each_release_orders_its_reports() -> None:
    def lines(release: Release) -> list[str]:
        said: list[str] = []
        reports = Reports(release, said.append)
        for pair in ((5, 6), (9, 1), (5, 7)):
            reports.index_mismatch("/i", *pair)
            reports.non_consecutive("/l", *pair)
        reports.offset_not_found("/t", 3, -1)
        reports.finish()
        return said

    assert lines(Release.V4_2) == [
        "Mismatches in :/i",
        "  Index offset: 5, log offset: 7",
        "  Index offset: 9, log offset: 1",
        "  Index offset: 5, log offset: 6",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 3, found log offset: -1",
        "Non-consecutive offsets in /l",
        "  5 is followed by 7",
        "  9 is followed by 1",
        "  5 is followed by 6",
    ]
    assert lines(Release.V4_3) == [
        "Mismatches in :/i",
        "  Index offset: 9, log offset: 1",
        "  Index offset: 5, log offset: 7",
        "The following indexed offsets are not found in :/t",
        "Indexed offset: 3, found log offset: -1",
        "Non-consecutive offsets in /l",
        "  5 is followed by 7",
        "  9 is followed by 1",
    ]


def test_paths_are_printed_as_java_prints_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = {"a//b/": "a/b", "./a": "./a", "/": "/", "//": "/", "a/../b": "a/../b"}
    assert {path: java_path(path) for path in shown} == shown
    assert java_absolute_path("./a") == f"{tmp_path}/./a"
    assert java_absolute_path("/x//y") == "/x/y"


def test_a_decoder_implies_data_and_data_implies_records() -> None:
    assert ClassicOptions(value_decoder="x").deep_iteration
    assert ClassicOptions(key_decoder="x").print_data_log
    assert not ClassicOptions(deep_iteration=True).print_data_log
