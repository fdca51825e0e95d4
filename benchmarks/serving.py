"""Compare `serve` with a broker on the same directory, and with bare sendfile(2).

    python -m benchmarks.serving fetch PORT SIZE     print the seconds of a Fetch loop that discards records
    python -m benchmarks.serving crowd PORT SIZE     print the latency of one reader beside 520 others
    python -m benchmarks.serving pingpong LOG SIZE   run a server that answers with a header and SIZE bytes

The log is made of batches of one size, so that a reader knows the next offset without looking at the records.
"""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import psutil

from benchmarks.data import WIDE, Inputs
from benchmarks.measure import Program, Runner, Sample
from benchmarks.recovery import TOPIC, MeasuredBroker
from kafkatool.engine.broker.derived_files import index_segment
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.format.batch import HEADER_SIZE, read_header
from kafkatool.format.protocol.apis import BY_NAME
from kafkatool.format.protocol.frames import write_request
from tests.kafka.peers import NEWEST, require_program
from tests.serving import Served

MIB = 1 << 20
_BUSY, _IDLE, _PROBES = 20, 500, 200
_REQUEST = 100  # bytes, about the size of a Fetch for one partition
_HEAD = 96
_MARK = 0x1122334455667788  # stands for the offset in a request that is written once


class Shape(NamedTuple):
    """The facts of a log whose batches are all alike."""

    batch_size: int
    records: int
    end: int


def shape_of(log: Path) -> Shape:
    with log.open("rb") as file:
        header = read_header(file.read(HEADER_SIZE))
    count = header.last_offset_delta + 1
    return Shape(header.size, count, log.stat().st_size // header.size * count)


class Contestants:
    """A broker and several `serve` processes on one directory, all running."""

    def __init__(self, inputs: Inputs, cleanup: ExitStack) -> None:
        log = inputs.log(WIDE)
        self.shape = shape_of(log)
        self.broker = MeasuredBroker(NEWEST)
        cleanup.callback(self.broker.close)
        self.broker.start()
        self.broker.client.create_topic(TOPIC)
        partition = self.broker.log_dir / f"{TOPIC}-0"
        while not (partition / "partition.metadata").exists():
            time.sleep(0.05)
        self.broker.kill()
        _place(log, partition)
        self.log = partition / log.name
        self.broker.start()
        self.port = int(self.broker.bootstrap.rpartition(":")[2])
        self.ours = self._served(cleanup)
        self.copying = self._served(cleanup, "--no-sendfile")
        certificate = _certificate(inputs.directory)
        self.tls = self._served(cleanup, "--tls-cert", str(certificate)) if certificate else None
        self._cleanup = cleanup

    def _served(self, cleanup: ExitStack, *words: str) -> Served:
        running = Served(*words, self.broker.log_dir)
        cleanup.enter_context(running)
        return running

    def fetch(self, port: int, size: int, *, tls: bool = False) -> Runner:
        """Return the Fetch loop over the whole log."""
        words = ["fetch", str(port), str(size), *map(str, self.shape), *(["tls"] if tls else [])]
        return _program(*words).run

    def cpu(self, pid: int, run: Runner) -> Runner:
        """Measure the processor time of a server while a client runs."""

        def measured() -> Sample:
            process = psutil.Process(pid)
            before = process.cpu_times()
            run()
            after = process.cpu_times()
            used = after.user - before.user + after.system - before.system
            return Sample(used, process.memory_info().rss)

        return measured

    def crowd(self, port: int, pid: int) -> Runner:
        """Measure the 99th percentile in seconds, and the memory of the server meanwhile."""
        program = _program("crowd", str(port), str(64 << 10), *map(str, self.shape))

        def measured() -> Sample:
            return Sample(program.run().seconds, psutil.Process(pid).memory_info().rss)

        return measured

    def pingpong(self, size: int) -> Runner:
        """Send the same bytes without Kafka: a request of that size, a header, and sendfile."""
        server = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.serving", "pingpong", str(self.log), str(size)],
            stdout=subprocess.PIPE,
        )
        self._cleanup.callback(server.kill)
        assert server.stdout is not None
        port = server.stdout.readline().decode().strip()
        return _program("pong", port, str(size), str(self.log.stat().st_size // size)).run

    def kcat(self, bootstrap: str) -> Runner:
        words = [require_program("kcat"), "-b", bootstrap, "-C", "-t", TOPIC, "-p", "0", "-o", "beginning"]
        return Program([*words, "-e", "-q", "-f", ""]).run


def _program(*words: str) -> Program:
    return Program([sys.executable, "-m", "benchmarks.serving", *words], tells_time=True)


def _place(log: Path, partition: Path) -> None:
    target = partition / log.name
    shutil.copyfile(log, target)
    with open_source(log, Guest(cache_keep=True)) as source:
        built = index_segment(source, 0, 4096)
    target.with_suffix(".index").write_bytes(built.offset_entries)
    target.with_suffix(".timeindex").write_bytes(built.time_entries)


def _certificate(folder: Path) -> Path | None:
    """Write a key and a self-signed certificate to one file."""
    path = folder / "serving.pem"
    openssl = shutil.which("openssl")
    if openssl is None:
        return None
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        words += ["-keyout", str(path), "-out", f"{path}.crt", "-subj", "/CN=localhost", "-days", "3650"]
        subprocess.run([openssl, *words], check=True, capture_output=True)
        path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


# --- the other ends -----------------------------------------------------------------------------------


def _request(offset: int, size: int) -> bytes:
    asked = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": size}
    body = {
        "maxWaitMs": 500,
        "minBytes": 1,
        "maxBytes": size,
        "isolationLevel": 0,
        "topics": [{"topic": TOPIC, "partitions": [asked]}],
    }
    return write_request(BY_NAME["fetch"], 11, 1, "bench", body)


class Reader:
    """A client that discards the records: it takes no time beyond the kernel's."""

    def __init__(self, port: int, size: int, shape: Shape, *, tls: bool = False) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            import ssl

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.sock = context.wrap_socket(self.sock)
        self.shape = shape
        self.buffer = memoryview(bytearray(MIB))
        self._around_offset = _request(_MARK, size).split(_MARK.to_bytes(8, "big"))

    def ask(self, offset: int) -> None:
        self.sock.sendall(offset.to_bytes(8, "big").join(self._around_offset))

    def take(self) -> int:
        """Receive one answer; return its size, without the size field."""
        got = self._some(0)
        while got < 4:
            got += self._some(got)
        size = int.from_bytes(self.buffer[:4], "big")
        left = 4 + size - got
        while left:
            left -= self._some(0, left)
        return size

    def _some(self, at: int, most: int = MIB) -> int:
        got = self.sock.recv_into(self.buffer[at : at + most])
        if not got:
            raise SystemExit("the server hung up")
        return got

    def step(self, offset: int) -> int:
        """Read once from an offset; return the next offset."""
        self.ask(offset)
        return offset + self.take() // self.shape.batch_size * self.shape.records

    def read_all(self) -> None:
        offset = 0
        while offset < self.shape.end:
            offset = self.step(offset)


def fetch(port: int, size: int, shape: Shape, tls: bool) -> float:
    reader = Reader(port, size, shape, tls=tls)
    reader.step(0)
    start = time.perf_counter()
    reader.read_all()
    return time.perf_counter() - start


def crowd(port: int, size: int, shape: Shape) -> float:
    """Measure one reader's latency while 20 read all the time and 500 wait at the end of the log."""
    stop = threading.Event()
    words = [sys.executable, "-m", "benchmarks.serving", "busy", str(port), str(MIB), *map(str, shape)]
    busy = [subprocess.Popen(words) for _ in range(_BUSY)]
    threading.Thread(target=_wait_at_the_end, args=(port, shape, stop), daemon=True).start()
    try:
        time.sleep(2)
        probe, times = Reader(port, size, shape), []
        for number in range(_PROBES):
            start = time.perf_counter()
            probe.step(number * 37 * shape.records % shape.end)
            times.append(time.perf_counter() - start)
            time.sleep(0.01)
        return quantiles(times, n=100)[98]
    finally:
        stop.set()
        for process in busy:
            process.kill()


def _wait_at_the_end(port: int, shape: Shape, stop: threading.Event) -> None:
    with selectors.DefaultSelector() as selector:
        for _ in range(_IDLE):
            reader = Reader(port, 1000, shape)
            reader.ask(shape.end)
            selector.register(reader.sock, selectors.EVENT_READ, reader)
        while not stop.is_set():
            for key, _events in selector.select(0.2):
                key.data.take()
                key.data.ask(shape.end)


def pingpong(log: Path, size: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    head = b"h" * _HEAD
    with log.open("rb") as file:
        while True:
            sock, _address = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            position = 0
            while sock.recv(4096):
                sock.send(head, socket.MSG_MORE)
                left = size
                while left:
                    sent = os.sendfile(sock.fileno(), file.fileno(), position, left)
                    position, left = position + sent, left - sent


def pong(port: int, size: int, count: int) -> float:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = memoryview(bytearray(MIB))
    start = time.perf_counter()
    for _ in range(count):
        sock.sendall(b"r" * _REQUEST)
        left = size + _HEAD
        while left:
            left -= sock.recv_into(buffer[: min(left, MIB)])
    return time.perf_counter() - start


def _words(words: list[str]) -> Iterator[int]:
    return (int(word) for word in words if word.isdigit())


def main() -> None:
    job, *words = sys.argv[1:]
    if job == "pingpong":
        pingpong(Path(words[0]), int(words[1]))
        return
    port, size, *rest = _words(words)
    if job == "pong":
        print(pong(port, size, rest[0]))
        return
    shape = Shape(*rest)
    if job == "fetch":
        print(fetch(port, size, shape, "tls" in words))
    elif job == "crowd":
        print(crowd(port, size, shape))
    else:
        reader = Reader(port, size, shape)
        while True:
            reader.read_all()


if __name__ == "__main__":
    main()
