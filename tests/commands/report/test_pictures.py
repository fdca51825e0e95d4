"""The pictures of a report: true to what they show, and bounded whatever that is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kafkatool.commands.report.pictures import damage_map, histogram, segment_line
from kafkatool.commands.screen.page import Markup, markup, tag
from kafkatool.commands.screen.time_axis import TimeAxis, axis_of
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.directory.log_dir import Segment, read_partition
from kafkatool.engine.jobs.sketches import HOUR_MS, Timeline
from kafkatool.engine.report.trouble import MOST_FINDINGS, DamageMap, Trouble
from kafkatool.engine.retention.rules import Decision, RetentionRule, RetentionVerdict, SegmentFacts
from kafkatool.engine.verify.finding import Finding

DAY_MS = 86_400_000
START_MS = 20_000 * DAY_MS


def _finding(file: str, start: int, end: int, severity: Severity = Severity.LOSS) -> Finding:
    damage = Damage(FindingClass.BAD_CRC, start, end, "this", "that", "words", severity)
    return Finding(file, "t", 0, damage, None)


@pytest.fixture
def segments(tmp_path: Path) -> list[Segment]:
    """Two segments of 500 bytes each."""
    for base in (0, 100):
        (tmp_path / f"{base:020d}.log").write_bytes(bytes(500))
    return read_partition(str(tmp_path), []).live_segments


def test_damage_lies_where_it_lies_in_the_log(segments: list[Segment]) -> None:
    found = DamageMap(segments)
    log = segments[1].log
    assert log is not None
    found.mark(_finding(log.path, 250, 300))
    assert [at for at, mark in enumerate(found.logs) if mark] == list(range(750, 800))
    assert not any(found.others)
    assert found.hurt == {100}
    # As wide as the stretch, and a cell on either side lest it vanish on a narrow screen.
    assert re.findall(r'class="f-loss" x="([\d.]+)" y="0" width="([\d.]+)"', damage_map(found)) == [
        ("749.0", "52.0")
    ]


def test_a_file_beside_the_log_marks_its_segment(segments: list[Segment], tmp_path: Path) -> None:
    found = DamageMap(segments)
    found.mark(_finding(str(tmp_path / "00000000000000000100.index"), 0, 8, Severity.DEGRADED))
    found.mark(_finding(str(tmp_path / "leader-epoch-checkpoint"), 0, 8, Severity.DEGRADED))
    assert [at for at, mark in enumerate(found.others) if mark] == list(range(500, 1000))
    assert not any(found.logs)


def test_the_worst_wins_where_two_findings_meet(segments: list[Segment]) -> None:
    found = DamageMap(segments)
    log = segments[0].log
    assert log is not None
    for severity in (Severity.LOSS, Severity.DEGRADED):
        found.mark(_finding(log.path, 0, 1, severity))
    assert found.logs[0] == Severity.LOSS + 1


def test_however_many_findings_only_the_first_are_kept_and_all_are_counted() -> None:
    first = _finding("f", 0, 1, Severity.DEGRADED)
    trouble = Trouble("t-0", None, first)
    for number in range(1000):
        trouble.add(_finding("f", number, number + 1, Severity.DEGRADED), keep=True)
    trouble.add(worst := _finding("f", 7, 8), keep=True)
    assert (trouble.total, len(trouble.kept), trouble.worst) == (1001, MOST_FINDINGS + 1, worst)


def _verdicts(count: int, each_ms: int) -> list[RetentionVerdict]:
    segments = [
        SegmentFacts(at, 10, START_MS + (at + 1) * each_ms, first_ms=START_MS + at * each_ms)
        for at in range(count)
    ]
    return [
        RetentionVerdict(
            one, Decision.KEEP, RetentionRule.TIME, one.base_offset + 1, is_active=one is segments[-1]
        )
        for one in segments
    ]


def test_a_segment_is_drawn_from_its_first_time_to_its_greatest() -> None:
    axis = TimeAxis(START_MS, START_MS + 4 * HOUR_MS)
    line = segment_line(_verdicts(4, HOUR_MS), {2}, axis)
    drawn = re.findall(r'class="(kept|open|hurt)" x="([\d.]+)" y="\d" width="([\d.]+)"', line)
    assert [(kind, float(x)) for kind, x, _width in drawn] == [
        *(("kept", 0.0), ("kept", 250.0), ("kept", 500.0), ("open", 750.0)),
        ("hurt", 500.0),
    ]


def test_tens_of_thousands_of_segments_are_no_more_than_there_is_room_for() -> None:
    count = 10_000
    line = segment_line(_verdicts(count, 1000), set(), TimeAxis(START_MS, START_MS + count * 1000))
    assert line.count("<rect") < 600
    assert "segments 0 to " in line


def test_a_clock_that_was_never_set_does_not_squeeze_the_rest() -> None:
    axis = axis_of(
        [0, 5, START_MS, START_MS + DAY_MS, START_MS + 40_000 * DAY_MS], now_ms=START_MS + 2 * DAY_MS
    )
    assert axis == TimeAxis(START_MS, START_MS + DAY_MS)
    assert axis is not None
    assert (axis.x(0), axis.x(START_MS + 40_000 * DAY_MS)) == (0, 1000)
    assert axis_of([None, -1], now_ms=0) is None


@pytest.mark.parametrize("span_ms", [1, 999, 60_000, DAY_MS, 400 * DAY_MS, 200_000 * DAY_MS])
def test_an_axis_has_a_handful_of_labels_at_most(span_ms: int) -> None:
    ticks = list(TimeAxis(START_MS, START_MS + span_ms).ticks())
    assert len(ticks) <= 7
    assert all(0 <= x <= 1000 for x, _text in ticks)


def test_the_histogram_says_what_it_leaves_out() -> None:
    timeline = Timeline()
    hours = np.array([START_MS + at * HOUR_MS for at in range(48)] + [0])
    timeline.add(hours, np.ones(49, dtype=np.int64), np.full(49, 10))
    chart, drawn, outside = histogram(timeline, START_MS + 3 * DAY_MS)
    assert (drawn.width_ms, outside) == (HOUR_MS, 10)
    assert chart.count('class="value"') == 48


def test_text_is_escaped_and_markup_is_not() -> None:
    assert markup("<&\"'>\n\u202e") == "&lt;&amp;&quot;&#x27;&gt;\\n\\u202e"
    assert tag("p", Markup("<b>"), "<b>", class_='"x') == '<p class="&quot;x"><b>&lt;b&gt;</p>'
