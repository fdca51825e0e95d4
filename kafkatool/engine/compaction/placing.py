"""Put a compacted partition in place: as a new directory, or instead of the old segments.

In place, by a broker's own protocol, so that a broker starting in the middle finds the old log or the new:

    write     B.log.cleaned …            a crash: .cleaned files are removed, the old log stays
    rename    .cleaned to .swap          highest base offset first; a crash: the same, while one is .cleaned
    remove    the old segments           a crash: the .swap files replace them
    rename    .swap to the final names   highest base offset first: a broker starting now deletes what lies
                                         within the range of the .swap files, so no new segment may
    write     cleaner-offset-checkpoint  a crash: the range is cleaned again
"""

from __future__ import annotations

import os
import re

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.compaction.passes import Compacted, drop, make_pass_directory
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.source import Guest, open_source, read_small_file
from kafkatool.engine.plan.steps import FileStretch, Plan, Step, remove, rename, write
from kafkatool.errors import Refused
from kafkatool.format.names import TopicPartition, segment_file
from kafkatool.format.state.checkpoint import PartitionOffset, read_offset_checkpoint, write_offset_checkpoint

CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
_EXTENSIONS = ("log", "index", "timeindex", "txnindex")
_COPIED = re.compile(
    r"\d{20}\.(log|index|timeindex|txnindex|snapshot)|leader-epoch-checkpoint|partition\.metadata"
)
_CHUNK = 1 << 20


def write_partition(done: Compacted, source: str, target: str, files: Files, guest: Guest) -> None:
    """Create `target`, which must not exist: the compacted segments, and all that is unchanged."""
    if os.path.lexists(target):
        raise Refused(f"{target}: already exists")
    parent, name = os.path.split(os.path.abspath(target))
    directory = done.directory or make_pass_directory(files, parent, name, 0)
    gone = _replaced_names(done)
    try:
        for name in sorted(os.listdir(source)):
            if _COPIED.fullmatch(name) and name not in gone:
                _copy(os.path.join(source, name), os.path.join(directory, name), files, guest)
        files.sync_directory(directory)
        files.rename(directory, target)
    except BaseException:
        drop(files, directory)
        raise
    files.sync_directory(parent)


def _replaced_names(done: Compacted) -> set[str]:
    """Return the files of cleaned segments, and the producer snapshots of those that were merged."""
    merged = set(done.gone) - set(done.written)
    files = {segment_file(base, f".{extension}") for base in done.gone for extension in _EXTENSIONS}
    return files | {segment_file(base, ".snapshot") for base in merged}


def _copy(source: str, target: str, files: Files, guest: Guest) -> None:
    file = files.create(target)
    try:
        with open_source(source, guest) as opened:
            position = 0
            while piece := opened.read(position, _CHUNK):
                file.write_at(position, piece)
                position += len(piece)
        files.set_mtime(target, os.stat(source).st_mtime_ns)
        file.sync()
    finally:
        file.close()


def plan_swap(done: Compacted, source: str, log_dir: str, partition: TopicPartition, guest: Guest) -> Plan:
    """Plan to replace the old segments by those of the last pass."""
    assert done.directory is not None
    new = {base: _files_of(done.directory, base) for base in done.written}
    cleaned, swapped, final = [], [], []
    for base in sorted(new, reverse=True):
        stage, last = [], []
        for name in new[base]:
            path, content = os.path.join(source, name), os.path.join(done.directory, name)
            size = os.path.getsize(content)
            cleaned.append(write(f"{path}.cleaned", FileStretch(content, 0, size), "what the cleaner keeps"))
            stage.append(rename(f"{path}.cleaned", f"{path}.swap", "all of it is written"))
            last.append(rename(f"{path}.swap", path, "takes the place of the old one"))
        swapped.append(tuple(stage))
        final.append(tuple(last))
    names = sorted(name for name in _replaced_names(done) if os.path.lexists(os.path.join(source, name)))
    removed = tuple(remove(os.path.join(source, name), "cleaned") for name in names)
    checkpoint = _checkpoint_step(log_dir, partition, done.passes[-1].cleaned.end_offset, guest)
    stages = (tuple(cleaned), *swapped, removed, *final, (checkpoint,))
    go_on = f"{Advice.RECOVER_NOW(where=os.path.abspath(source))}; then compact again"
    return Plan("compact", log_dir, stages, go_on=go_on)


def _files_of(directory: str, base: int) -> list[str]:
    names = (segment_file(base, f".{extension}") for extension in _EXTENSIONS)
    return [name for name in names if os.path.exists(os.path.join(directory, name))]


def _checkpoint_step(log_dir: str, partition: TopicPartition, offset: int, guest: Guest) -> Step:
    path = os.path.join(log_dir, CLEANER_CHECKPOINT)
    entries = [one for one in read_checkpoint(log_dir, guest) if (one.topic, one.partition) != partition]
    content = write_offset_checkpoint([*entries, PartitionOffset(*partition, offset)])
    return write(path, content, f"cleaned up to {offset}")


def read_checkpoint(log_dir: str, guest: Guest) -> list[PartitionOffset]:
    """Return up to where each partition is cleaned; nothing if there is no such file."""
    try:
        return read_offset_checkpoint(read_small_file(os.path.join(log_dir, CLEANER_CHECKPOINT), guest))
    except FileNotFoundError:
        return []
