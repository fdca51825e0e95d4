"""Records never pass through this program: the kernel's own account of it, by strace."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from kafkatool.engine.serve.log_files import LogFiles
from tests.kafka.librdkafka import wait_until
from tests.serving import Served
from tests.serving_logs import large_log_dir

_CALL = re.compile(
    r"\b(sendfile|sendto|sendmsg|write|writev|read|pread64|preadv|readv)\((\d+)<(.*?)>.* = (\d+)$"
)


def read_through(served: Served, end: int, size: int) -> int:
    """Every record of the topic, by a client that throws them away; the bytes of records that came."""
    total = offset = 0
    with served.client() as client:
        while offset < end:
            records = client.fetch("big", offset, max_bytes=size)["records"]
            total += len(records)
            at = 0
            while at + 61 <= len(records):
                length = int.from_bytes(records[at + 8 : at + 12], "big") + 12
                if at + length > len(records):
                    break
                first = int.from_bytes(records[at : at + 8], "big")
                offset = first + int.from_bytes(records[at + 23 : at + 27], "big") + 1
                at += length
    return total


def traced(path: Path) -> Counter[str]:
    """Bytes by what they went through."""
    found: Counter[str] = Counter()
    for line in path.read_text(errors="replace").splitlines():
        match = _CALL.search(line)
        if match is None:
            continue
        call, _fd, name, size = match.groups()
        if call == "sendfile":
            found["by sendfile"] += int(size)
        elif name.startswith(("TCP", "socket")) and call in ("sendto", "sendmsg", "write", "writev"):
            found["to sockets"] += int(size)
        elif name.endswith(".log") and "read" in call:
            found["from logs"] += int(size)
    return found


def prove(directory: Path, size: int) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace")
    end = large_log_dir(directory / "logs", "big", size)
    trace = directory / "trace"
    calls = "trace=sendfile,sendto,sendmsg,write,writev,read,pread64,preadv,readv"
    # -D: what we start, and stop, is the server itself.
    wrapper = (strace, "-D", "-f", "-y", "-qq", "-e", calls, "-o", str(trace))
    with Served(directory / "logs", wrapper=wrapper) as running:
        if not running.port:
            pytest.skip("strace may not trace here")
        total = read_through(running, end, 1 << 20)
        assert running.stop() == 0, running.stderr()
    wait_until(lambda: traced(trace)["by sendfile"] >= total, "the end of the trace")
    found = traced(trace)
    assert found["by sendfile"] == total >= size * 0.99
    assert 0 < found["to sockets"] < total * 0.01, found
    assert found["from logs"] < total * 0.01, found


def test_a_read_goes_out_by_sendfile_alone(tmp_path: Path) -> None:
    prove(tmp_path, 32 << 20)


@pytest.mark.soak
def test_a_read_of_a_gibibyte_goes_out_by_sendfile_alone(tmp_path: Path) -> None:
    prove(tmp_path, 1 << 30)


def test_log_files_are_closed_when_nobody_holds_them(tmp_path: Path) -> None:
    paths = []
    for number in range(5):
        made = tmp_path / f"{number:020d}.log"
        made.write_bytes(b"x" * 100)
        paths.append(str(made))
    files = LogFiles(most_files=2)
    held = files.get(paths[0])
    for path in paths[1:]:
        files.get(path)
    assert held.source.read(0, 3) == b"xxx"
    open_now = [
        link for link in Path("/proc/self/fd").iterdir() if link.exists() and str(link.resolve()) in paths
    ]
    assert len(open_now) == 3
