"""What real brokers wrote reads exactly as Kafka's own tool of each release reads it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pytest

from kafkatool.format.release import Release
from tests.goldens import Golden, check_golden, load_goldens

ALWAYS = (Release.V3_9, Release.V4_3)
"""The oldest and the newest. Most texts of those between are theirs: of them every fourth is always read."""


def cases() -> Iterator[object]:
    for case, found in groupby(load_goldens(), key=lambda golden: golden.case):
        name, between = f"{case.parent.name}/{case.name}", 0
        often: list[Golden] = []
        seldom: list[Golden] = []
        for golden in found:
            is_between = Release.parse(golden.release) not in ALWAYS
            between += is_between
            (seldom if is_between and between % 4 else often).append(golden)
        yield pytest.param(often, id=name)
        if seldom:
            yield pytest.param(seldom, id=f"{name}, all releases", marks=pytest.mark.soak)


@pytest.mark.parametrize("goldens", list(cases()))
def test_text_equals_kafkas_for_every_file_mode_and_release(goldens: list[Golden]) -> None:
    for golden in goldens:
        check_golden(golden)


def test_there_are_goldens_of_every_release() -> None:
    assert {Release.parse(golden.release) for golden in load_goldens()} == set(Release)
