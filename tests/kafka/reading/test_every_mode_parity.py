"""Every file of every fixture, in every mode, by every release: what their dump tools print now.

The goldens beside the fixtures hold a choice of this, so that they stay small and need no Java.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures_of_logs import CASES
from tests.goldens import Golden, check_golden, mask_identities
from tests.kafka import peers
from tests.kafka.making.golden_runs import DECODERS, INDEX_MODES, LOG_MODES, Call, Copy, call_of, releases_of

pytestmark = [pytest.mark.peer, pytest.mark.soak]

_LOGS = (".log", ".checkpoint")
_INDEXES = (".index", ".timeindex")
_OTHERS = (".txnindex", ".snapshot", ".deleted", ".swap", ".cleaned")


def every_call(case: Path) -> Iterator[Call]:
    """Decoders only where they are at home: elsewhere the goldens have them."""
    for path in sorted(path for path in case.rglob("*") if path.is_file()):
        modes: list[list[str]] = []
        if path.suffix in _LOGS:
            topic = "__cluster_metadata" if path.parent == case else path.parent.name.rpartition("-")[0]
            decoder = DECODERS.get(topic)
            modes = [*LOG_MODES, *([[decoder], [decoder, "--skip-record-metadata"]] if decoder else [])]
        elif path.suffix in _INDEXES and path.parent.name != "remote-log-index-cache":
            modes = [*INDEX_MODES]
        elif path.suffix in _OTHERS:
            modes = [[]]
        yield from (call_of(case, path, mode=mode) for mode in modes)


@pytest.mark.parametrize("release", peers.RELEASES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_text_equals_what_the_tool_prints_now(case: Path, release: str, tmp_path: Path) -> None:
    peers.require_kafka(release)
    copy = Copy(case, tmp_path / "dir")
    calls = [call for call in every_call(case) if release in releases_of(call)]
    assert calls
    for call in calls:
        theirs = copy.run(call, release)
        texts = mask_identities(theirs.stdout.decode()), mask_identities(theirs.stderr.decode())
        check_golden(Golden(case, call, release, *texts, theirs.exit_code, theirs.exception is not None))
