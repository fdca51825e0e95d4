"""The server in this process, with little patience: silent, slow and half-open clients, large requests."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import expand
from kafkatool.engine.files.source import Guest
from kafkatool.engine.serve.answers import Answers, Identity, ServerReporter
from kafkatool.engine.serve.budget import Budget, NoRoom, Share
from kafkatool.engine.serve.catalog import CatalogChoice, make_catalog
from kafkatool.engine.serve.committed import Committed
from kafkatool.engine.serve.connections import ConnectionLimits
from kafkatool.engine.serve.partitions import Serving
from kafkatool.engine.serve.server import Address, Server, Settings
from kafkatool.format.protocol.apis import BY_NAME
from kafkatool.format.protocol.frames import write_request
from tests.kafka.librdkafka import wait_until
from tests.logs import batches, write_log
from tests.serving import RawClient
from tests.serving_logs import large_log_dir


class Overheard(ServerReporter):
    def __init__(self, said: list[str]) -> None:
        self.say = self.detail = said.append  # type: ignore[method-assign, assignment]


@contextmanager
def running(
    directory: Path, limits: ConnectionLimits, *, uses_sendfile: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Its port, and what it says."""
    guest, said = Guest(), list[str]()
    catalog = make_catalog(
        Selection(expand([str(directory)]).targets, guest), CatalogChoice(), Serving(guest)
    )
    answers = Answers(lambda: catalog, Identity("test", 1), Committed())
    settings = Settings(Address("127.0.0.1", 0), limits=limits, uses_sendfile=uses_sendfile)
    server = Server(settings, answers, Overheard(said))
    port = server.listen().port
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield port, said
    finally:
        server.stop()
        thread.join(60)
        server.close(1.0)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    write_log(tmp_path / "t-0", b"".join(batches(5)))
    return tmp_path


def seconds_until_closed(sock: socket.socket) -> float:
    start = time.monotonic()
    sock.settimeout(60)
    while sock.recv(1 << 16):
        pass
    return time.monotonic() - start


def wait_until_said(said: list[str], words: str) -> None:
    """A connection may be closed a little before that is told."""
    wait_until(lambda: any(words in line for line in said), words)


def test_a_client_that_never_says_anything_is_hung_up_on(small: Path) -> None:
    with running(small, ConnectionLimits(first_byte_seconds=0.3)) as (port, said):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            assert 0.2 < seconds_until_closed(sock) < ConnectionLimits().first_byte_seconds - 1
        wait_until_said(said, "nothing came for too long")


def test_a_request_that_comes_too_slowly_is_not_waited_for(small: Path) -> None:
    with running(small, ConnectionLimits(frame_seconds=0.5)) as (port, _said):
        sock = socket.create_connection(("127.0.0.1", port))
        frame = write_request(BY_NAME["metadata"], 8, 1, None, {"topics": None})
        start = time.monotonic()
        with sock, suppress(OSError):  # reset or broken, as it comes
            for byte in frame * 100:
                sock.sendall(bytes([byte]))
                time.sleep(0.1)
        assert time.monotonic() - start < len(frame) * 100 * 0.1


def test_a_client_that_takes_nothing_of_its_answer_is_hung_up_on(tmp_path: Path) -> None:
    large_log_dir(tmp_path, "big", 24 << 20)
    with running(tmp_path, ConnectionLimits(stall_seconds=0.5)) as (port, said):
        client = RawClient(port)
        asked = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 24 << 20}
        topics = [{"topic": "big", "partitions": [asked]}]
        client.send("fetch", 11, maxWaitMs=0, minBytes=1, maxBytes=24 << 20, isolationLevel=0, topics=topics)
        wait_until_said(said, "took nothing")
        client.close()


@pytest.mark.parametrize("uses_sendfile", [True, False])
def test_a_log_that_shrinks_meanwhile_ends_the_connection_and_no_other(
    tmp_path: Path, uses_sendfile: bool
) -> None:
    large_log_dir(tmp_path, "big", 24 << 20)
    with running(tmp_path, ConnectionLimits(), uses_sendfile=uses_sendfile) as (port, said):
        client = RawClient(port)
        asked = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 24 << 20}
        topics = [{"topic": "big", "partitions": [asked]}]
        client.send("fetch", 11, maxWaitMs=0, minBytes=1, maxBytes=24 << 20, isolationLevel=0, topics=topics)
        client.sock.recv(1, socket.MSG_PEEK)  # it has begun to answer, and cannot end
        with (tmp_path / "big-0" / "00000000000000000000.log").open("r+b") as log:
            log.truncate(1 << 20)
        with pytest.raises((EOFError, ConnectionError)):
            client.receive_frame()
        wait_until_said(said, "ends before byte")
        client.close()
        with RawClient(port) as other:
            assert other.fetch("big", 0, max_bytes=1000)["records"]


def test_a_request_above_the_limit_is_refused_before_it_is_read(small: Path) -> None:
    with running(small, ConnectionLimits(frame_bytes=1000)) as (port, said):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall((1001).to_bytes(4, "big"))
            seconds_until_closed(sock)
        wait_until_said(said, "0 to 1000")


def test_large_requests_are_answered_when_there_is_room_for_them(small: Path) -> None:
    names = [{"name": f"topic-{number:06d}"} for number in range(4_000)]
    with running(small, ConnectionLimits()) as (port, _said):
        clients = [RawClient(port) for _ in range(6)]
        for client in clients:
            client.send("metadata", 8, topics=names)
        for client in clients:
            assert len(client.receive("metadata", 8)["topics"]) == 4_000
            client.close()


def test_room_is_shared_and_waited_for() -> None:
    budget = Budget(16 << 20)
    first, second = Share(budget), Share(budget)
    first.claim(12 << 20)
    with pytest.raises(NoRoom, match="of --max-memory have left"):
        budget.take(6 << 20, patience=0.05)
    threading.Timer(0.2, first.keep, [0]).start()
    second.claim(12 << 20)
    assert budget.taken >= 11 << 20
    with pytest.raises(NoRoom):  # more than there will ever be
        first.claim(20 << 20)
    second.keep(0)
    assert budget.taken == 0


def test_large_requests_that_come_bit_by_bit_leave_a_quarter_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them takes little at a time, and together they would take all."""
    budget = Budget(16 << 20)
    monkeypatch.setattr(budget, "take", partial(budget.take, patience=0))
    for share in [Share(budget) for _ in range(64)]:
        with suppress(NoRoom):
            for _bit in range(31):
                share.claim(32 << 10, expected=2 << 20)
    assert budget.taken > budget.size // 2
    assert budget.size - budget.taken >= budget.size // 4
