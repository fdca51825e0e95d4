"""What the README and the transcripts show is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts import commands, mask, prepare, replay, transcripts


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("transcripts")
    prepare(made)
    return made


@pytest.mark.parametrize("path", transcripts(), ids=lambda path: path.name)
def test_the_shell_examples_print_what_they_show(path: Path, directory: Path) -> None:
    written = path.read_text()
    assert commands(written), "no example at all"
    assert mask(replay(written, directory)) == mask(written), "if this is right: make transcripts"


def test_only_what_a_file_system_decides_is_left_out_of_the_comparison() -> None:
    table = (
        "TOPIC   SIZE  ALLOCATED  LEFTOVERS  NOTE\n"
        "clicks   20M      12.0K         0B  torn\n"
        "$ echo 1234567890123456789012345678901234567890\n"
    )
    other = table.replace("12.0K", " 4.0K").replace(" 0B", "16B")
    assert mask(table) == mask(other)
    assert mask(table) != mask(table.replace("20M", "21M"))
    assert mask(table) != mask(table.replace("torn", "good"))
    assert mask(table) != mask(table.replace("90123", "90124"))
    assert mask('{"size":1,"allocated":4096}') == mask('{"size":1,"allocated":512}')
