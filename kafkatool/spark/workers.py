"""A pool of workers whose processes are a Spark cluster's: every job of the engine runs there.

    submit  ->  queue  ->  a Spark job of some tasks, each a list of functions  ->  results, errors

Small functions are packed together, as a task costs some milliseconds however little it does. Two Spark jobs
are in progress at a time, so that no slot waits for the slowest task of one. An error comes back as a result:
Spark sees no failed task unless an executor dies, and then it retries elsewhere.
"""

from __future__ import annotations

import gc
import os
import pickle
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from typing import Any, Self, TypeVar

from kafkatool.engine.jobs.survey import Split
from kafkatool.engine.jobs.worker_pool import Pending, Workers, sendable
from kafkatool.errors import KafkatoolError
from kafkatool.spark.losses import need_directory

LEAST_TASK = 16 << 20
"""Bytes to read that justify a task of their own."""
MOST_IN_A_TASK = 256
_SIZE_OF_OTHERS = 4 << 20  # assumed for functions that do not say what they read
_JOBS_AT_ONCE = 2
_SPLITS_A_SLOT = 8
_POLL_SECONDS = 0.1

_Result = TypeVar("_Result")


class _Job:
    """Functions that run as one Spark job, and its progress."""

    def __init__(self, pendings: list[Pending[Any]], slots: int) -> None:
        self.pendings = pendings
        self.size = sum(map(_size, pendings))
        self.packs = list(_packs(pendings, self.size, slots))
        self.told = 0
        self.group = f"kafkatool-{id(self)}"


class SparkWorkers(Workers):
    """Run functions on the executors of a session."""

    def __init__(self, session: Any, advance: Callable[[int], None] = lambda size: None) -> None:
        """Use a session; `advance` is called with bytes as the tasks that read them end."""
        self._context = session.sparkContext
        self.count = max(2, self._context.defaultParallelism)
        self._advance = advance
        self._is_closed = False
        self._waiting: list[Pending[Any]] = []
        self._size = 0
        self._under_way: list[_Job] = []
        self._ended: Queue[tuple[_Job, Any]] = Queue()

    @property
    def room(self) -> int:
        return _JOBS_AT_ONCE * self.count * MOST_IN_A_TASK

    def submit(self, run: Callable[..., _Result], *arguments: object) -> Pending[_Result]:
        pending = Pending(run, arguments)
        self._waiting.append(pending)
        self._size += _size(pending)
        if self._size >= _SPLITS_A_SLOT * self.count * (128 << 20):
            self._launch()
        return pending

    def wait(self) -> None:
        """Wait until a job has ended; there may be nothing left to do."""
        self._launch()
        while self._under_way:
            try:
                job, ended = self._ended.get(timeout=_POLL_SECONDS)
            except Empty:
                self._tell_progress()
                continue
            self._take(job, ended)
            self._launch()
            return

    def _launch(self) -> None:
        if len(self._under_way) >= _JOBS_AT_ONCE:
            return
        pendings = [one for one in self._waiting if not one.is_cancelled]
        self._waiting, self._size = [], 0
        if not pendings:
            return
        from pyspark import InheritableThread

        job = _Job(pendings, self.count)
        self._under_way.append(job)
        InheritableThread(target=self._run, args=(job,), daemon=True).start()

    def _run(self, job: _Job) -> None:
        """Run a job in its own thread: the main thread must be free for an interrupt."""
        context = self._context
        try:
            context.setJobGroup(job.group, "kafkatool", interruptOnCancel=True)
            packs = [[(one.run, one.arguments) for one in pack] for pack in job.packs]
            # Pickled here: what all functions of a task share is sent once.
            blobs = [bytearray(pickle.dumps((os.getcwd(), pack), pickle.HIGHEST_PROTOCOL)) for pack in packs]
            tasks = context.parallelize(blobs, len(blobs)).mapPartitions(run_packs)
            # Nobody is left to cancel a job that begins after the end.
            ended: Any = [] if self._is_closed else tasks.collect()
        except BaseException as error:
            ended = error
        self._ended.put((job, ended))

    def _take(self, job: _Job, ended: Any) -> None:
        self._under_way.remove(job)
        if isinstance(ended, BaseException):
            failure = _failure(job, ended)
            for pending in job.pendings:
                pending.end(False, failure)
            return
        for pack, blob in zip(job.packs, ended, strict=True):
            for pending, (is_good, value) in zip(pack, pickle.loads(blob), strict=True):
                pending.end(is_good, value)
        self._tell(job, job.size)

    def _tell_progress(self) -> None:
        tracker = self._context.statusTracker()
        for job in self._under_way:
            done = 0
            for number in tracker.getJobIdsForGroup(job.group):
                info = tracker.getJobInfo(number)
                for stage in () if info is None else info.stageIds:
                    found = tracker.getStageInfo(stage)
                    done += 0 if found is None else found.numCompletedTasks
            self._tell(job, job.size * min(done, len(job.packs)) // len(job.packs))

    def _tell(self, job: _Job, size: int) -> None:
        if size > job.told:
            self._advance(size - job.told)
            job.told = size

    def close(self) -> None:
        """Cancel what is in progress, repeatedly: a job that Spark does not know yet is not cancelled.

        On a busy machine a cancelled job may be sent again, without its group. Then everything in the session
        is cancelled, as Spark itself does at an interrupt.
        """
        self._is_closed = True
        self._waiting.clear()
        start = time.monotonic()
        while self._under_way and time.monotonic() < start + 30:
            for job in self._under_way:
                with suppress(Exception):
                    self._context.cancelJobGroup(job.group)
            if time.monotonic() > start + 3:
                with suppress(Exception):
                    self._context.cancelAllJobs()
            with suppress(Empty):
                job, _ended = self._ended.get(timeout=0.5)
                self._under_way.remove(job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _size(pending: Pending[Any]) -> int:
    """Return how much a function has to read, according to one of its arguments."""
    said = (getattr(one, "bytes_to_read", None) for one in pending.arguments)
    return next((size for size in said if size is not None), _SIZE_OF_OTHERS)


def _split_of(arguments: tuple[object, ...]) -> Split | None:
    return next((one for one in arguments if isinstance(one, Split)), None)


def _packs(pendings: list[Pending[Any]], left: int, slots: int) -> Iterator[list[Pending[Any]]]:
    """Pack neighbours, as many as make a task; fewer towards the end, so that no slot waits long."""
    pack: list[Pending[Any]] = []
    size = 0
    for pending in pendings:
        target = max(LEAST_TASK, left // (4 * slots))
        if pack and (size + _size(pending) > target or len(pack) == MOST_IN_A_TASK):
            yield pack
            left -= size
            pack, size = [], 0
        pack.append(pending)
        size += _size(pending)
    if pack:
        yield pack


def _failure(job: _Job, error: BaseException) -> KafkatoolError:
    """Return Spark's reason for giving up a task, with what the task was about."""
    text = str(error)
    task = re.search(r"Task (\d+) in stage", text)
    where = ""
    if task is not None and int(task.group(1)) < len(job.packs):
        where = f"{place_of(job.packs[int(task.group(1))][0].arguments)}: "
    reason = re.search(r"Most recent failure: ([^\n]*)", text)
    said = reason.group(1) if reason else text.strip().splitlines()[0] if text.strip() else "no reason"
    return KafkatoolError(f"{where}Spark gave up on a task: {said}")


def place_of(arguments: tuple[object, ...]) -> str:
    """Return what a function is about, as file and bytes."""
    split = _split_of(arguments)
    if split is not None:
        return f"{split.path} from byte {split.start} to {split.end}"
    return next((str(path) for one in arguments if (path := getattr(one, "path", None))), "a task")


# --- on an executor -----------------------------------------------------------------------------------


def run_packs(blobs: Iterator[bytearray]) -> Iterator[bytearray]:
    """Run every function of every pack, and yield the results; an error is a result."""
    settle_in()
    for blob in blobs:
        directory, pack = pickle.loads(bytes(blob))
        with _working_in(directory):
            ended = [_ended(run, arguments) for run, arguments in pack]
        yield bytearray(pickle.dumps(ended, pickle.HIGHEST_PROTOCOL))


@contextmanager
def _working_in(directory: str) -> Iterator[None]:
    """Resolve paths as on the host where they were typed."""
    before = os.getcwd()
    with suppress(OSError):
        os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def _ended(run: Callable[..., object], arguments: tuple[object, ...]) -> tuple[bool, Any]:
    try:
        _need_what_is_read(arguments)
        result = run(*arguments)
        _need_what_is_read(arguments)
        return True, result
    except (KafkatoolError, FileNotFoundError) as error:
        return False, sendable(error)
    except Exception as error:
        return False, KafkatoolError(f"{place_of(arguments)}: {type(error).__name__}: {error}")


def _need_what_is_read(arguments: tuple[object, ...]) -> None:
    """Raise DataLoss if this host does not see a directory: to a job its files would seem deleted."""
    for one in arguments:
        log = one.path if isinstance(one, Split) else getattr(one, "reads", None)
        directory = getattr(one, "path", None) if log is None else os.path.dirname(log) or "."
        if isinstance(directory, str):
            need_directory(directory)


def settle_in() -> None:
    """Prepare a worker once: read at idle priority, and save Spark most garbage collection after a task."""
    if not getattr(gc, "_kafkatool_is_frozen", False):
        from kafkatool.engine.files.page_cache import idle_io_priority, keep_freed_memory

        idle_io_priority()
        keep_freed_memory()
        gc.collect()
        gc.freeze()
        gc._kafkatool_is_frozen = True  # type: ignore[attr-defined]
