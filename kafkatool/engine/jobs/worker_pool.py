"""Run functions in processes: forked, so that they start at once, and gone when we are.

    parent                                worker
      | -- size, pickled (function, arguments) -> |
      | <- size, pickled (is_good, result) ------ |

The parent writes to an idle worker, or puts one more small message into the pipe of a busy one: neither ever
blocks on a full pipe of the other. While there is much to do, a worker has its next function before it
finishes the last, and need not wait for the parent.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from struct import Struct
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from kafkatool.errors import KafkatoolError

_Result = TypeVar("_Result")

_SIZE = Struct("=q")
_LARGEST_READ = 1 << 20
WORTH_A_WORKER = 64 << 20
"""Bytes: less is read before another process has started."""
_IN_LINE_PER_WORKER = 4


class Pending(Generic[_Result]):
    """The result of a function that runs somewhere, now or later."""

    def __init__(self, run: Callable[..., _Result], arguments: tuple[object, ...]) -> None:
        self.run = run
        self.arguments = arguments
        self.is_done = False
        self.is_cancelled = False
        self._value: _Result | None = None
        self._error: BaseException | None = None

    def cancel(self) -> None:
        """Cancel it: if it has not begun, it never will."""
        self.is_cancelled = True

    def end(self, is_good: bool, value: Any) -> None:
        self.is_done = True
        if is_good:
            self._value = value
        else:
            self._error = value

    def result(self) -> _Result:
        """Return what it returned, or raise what it raised. Only once it is done."""
        assert self.is_done
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # None where that is what it returned


class Workers:
    """Run functions in this process."""

    count = 1

    @property
    def room(self) -> int:
        """How many functions may be queued before the caller should wait."""
        return _IN_LINE_PER_WORKER * self.count

    def submit(self, run: Callable[..., _Result], *arguments: object) -> Pending[_Result]:
        pending = Pending(run, arguments)
        pending.end(*_outcome(run, arguments))
        return pending

    def wait(self) -> None:
        """Wait until something more is done, or nothing is left to do."""


class _Worker(NamedTuple):
    pid: int
    tasks: int
    results: int
    under_way: deque[Pending[Any]]
    """What it was given, in the order in which it answers."""


class WorkerPool(Workers):
    """Run functions in `count` processes."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._workers: list[_Worker] = []
        self._waiting: deque[Pending[Any]] = deque()
        self._poll = select.poll()
        parent = os.getpid()
        for _ in range(count):
            self._workers.append(self._start(parent))
        self._by_results = {worker.results: worker for worker in self._workers}

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def _start(self, parent: int) -> _Worker:
        (tasks, hand_out), (take_in, results) = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            # If it kept an end of another worker's pipe open, it would block that one for ever.
            for fd in (hand_out, take_in, *(fd for one in self._workers for fd in (one.tasks, one.results))):
                os.close(fd)
            _serve(parent, tasks, results)
        os.close(tasks)
        os.close(results)
        self._poll.register(take_in, select.POLLIN)
        return _Worker(pid, hand_out, take_in, deque())

    def submit(self, run: Callable[..., _Result], *arguments: object) -> Pending[_Result]:
        pending = Pending(run, arguments)
        self._waiting.append(pending)
        self._take_in(0)
        return pending

    def wait(self) -> None:
        self._take_in(None)

    def _take_in(self, timeout_ms: int | None) -> None:
        """Take what is done, waiting up to the timeout, and keep all workers busy."""
        self._hand_out()
        if any(worker.under_way for worker in self._workers):
            for fd, _event in self._poll.poll(timeout_ms):
                is_good, value = _receive(fd)
                self._by_results[fd].under_way.popleft().end(is_good, value)
            self._hand_out()

    def _hand_out(self) -> None:
        for ahead in (0, 1):
            for worker in self._workers:
                # Work given ahead must not wait for something slow while other workers are idle.
                while len(worker.under_way) <= ahead and len(self._waiting) > ahead * self.count:
                    if not self._give(worker, self._waiting.popleft()):
                        return

    def _give(self, worker: _Worker, pending: Pending[Any]) -> bool:
        """Give work to a worker; return False if it must wait until the worker is idle."""
        if pending.is_cancelled:
            return True
        message = _message((pending.run, pending.arguments))
        if worker.under_way and len(message) > select.PIPE_BUF:
            self._waiting.appendleft(pending)
            return False
        worker.under_way.append(pending)
        _write(worker.tasks, message)
        return True

    def close(self) -> None:
        """Kill all processes at once, whatever they do."""
        for worker in self._workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
        for worker in self._workers:
            os.close(worker.tasks)
            os.close(worker.results)
            with suppress(ChildProcessError):
                os.waitpid(worker.pid, 0)


@contextmanager
def workers(jobs: int, most: int | None = None) -> Iterator[Workers]:
    """Provide so many workers; 0: one per core, but at most `most`. A single one is this process itself.

    However the block ends, no process is left. Use it before anything that starts a thread.
    """
    cores = os.cpu_count() or 1
    count = jobs or max(1, cores if most is None else min(cores, most))
    if count == 1:
        yield Workers()
        return
    pool = WorkerPool(count)
    try:
        yield pool
    finally:
        pool.close()


# --- both ends of a pipe ----------------------------------------------------------------------------------


def _message(content: object) -> bytes:
    data = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return _SIZE.pack(len(data)) + data


def _write(fd: int, message: bytes) -> None:
    left = memoryview(message)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except BrokenPipeError:
        raise _died() from None


def _receive(fd: int) -> Any:
    [size] = _SIZE.unpack(_read(fd, _SIZE.size))
    return pickle.loads(_read(fd, size))


def _read(fd: int, size: int) -> bytes:
    pieces = []
    while size:
        piece = os.read(fd, min(size, _LARGEST_READ))
        if not piece:
            raise _died()
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _died() -> KafkatoolError:
    return KafkatoolError(
        "a worker process died (killed, or out of memory): the scan is not complete; "
        "--jobs 1 does without workers"
    )


# --- in a worker ------------------------------------------------------------------------------------------


def _serve(parent: int, tasks: int, results: int) -> NoReturn:
    """Run what comes until the pipe closes. Nothing of the parent's is cleaned up or flushed here."""
    try:
        _begin(parent)
        while True:
            is_good, value = _outcome(*_receive(tasks))
            _write(results, _message((is_good, value if is_good else sendable(value))))
    finally:
        os._exit(0)


def sendable(error: Exception) -> Exception:
    """Return an error, or its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return KafkatoolError(f"{type(error).__name__}: {error}")
    return error


def _outcome(run: Callable[..., object], arguments: tuple[object, ...]) -> tuple[bool, Any]:
    try:
        return True, run(*arguments)
    except Exception as error:
        return False, error


def _begin(parent: int) -> None:
    """Ignore interrupts, which the parent handles, and die with the parent."""
    from kafkatool.engine.files.page_cache import idle_io_priority

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    idle_io_priority()
    with suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
