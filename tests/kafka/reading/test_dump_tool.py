"""The dump tool in its long-lived JVM prints what a process of its own prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka import dump_tool, peers

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("dump tool")]

# Two records at offset 100: key "k", value "é"; null key, empty value.
BATCH = bytes.fromhex(
    "0000000000000064 00000044 00000000 02 534caa82 0000 00000001 0000018bcfe56800 0000018bcfe56805"
    "ffffffffffffffff ffff ffffffff 00000002 16 00 00 00 02 6b 02 76 02 02 68 01 0c 00 0a 02 01 00 00"
)

MODES = {
    "data": ["--print-data-log"],
    "throws": ["--offsets-decoder"],
    "usage": ["--no-such-option"],
}


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000100.log"
    # A value of one byte that is no UTF-8: its CRC is wrong then, and the tool goes on.
    path.write_bytes(BATCH.replace(b"\x02\x76\x02", b"\x02\xe9\x02") + b"torn")
    return path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [peers.OLDEST, peers.NEWEST])
def test_it_prints_what_a_process_of_its_own_prints(version: str, mode: str, segment: Path) -> None:
    peers.require_kafka(version)
    arguments = ["--files", str(segment), *MODES[mode]]
    process = dump_tool.run_standalone(version, arguments)
    result = dump_tool.shared(version).run(arguments)
    own_lines, _, trace = process.stderr.partition(b"Exception in thread")
    assert (result.stdout, result.exit_code) == (process.stdout, process.returncode)
    assert result.stderr == own_lines
    assert (result.exception is not None) == bool(trace)


def test_a_copy_is_dumped_and_its_place_is_masked(segment: Path) -> None:
    peers.require_kafka(peers.NEWEST)
    result = dump_tool.shared(peers.NEWEST).dump_copy(segment.parent, ["--files", f"@DIR@/{segment.name}"])
    assert result.stdout.startswith(f"Dumping @DIR@/{segment.name}\nLog starting offset: 100\n".encode())
    assert result.stdout.endswith(
        b"isvalid: false\nFound 4 invalid bytes at the end of 00000000000000000100.log\n"
    )
