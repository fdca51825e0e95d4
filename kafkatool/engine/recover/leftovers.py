"""Resolve files left by a cleaning, split or deletion, before the log itself is loaded."""

from __future__ import annotations

from kafkatool.engine.recover.result import BrokerThrows, PartitionLoading, offset_in_name


def drop_temporary_files(log: PartitionLoading) -> None:
    """Remove .deleted and .cleaned files, and the .swap files of an incomplete swap."""
    cleaned = []
    for name in list(log.dir):
        if name.endswith(".deleted") and not name.endswith(".checkpoint.deleted"):
            log.drop_leftover(name, "marked as deleted")
        elif name.endswith(".cleaned"):
            cleaned.append(_offset_of_leftover(name))
    least = min(cleaned, default=None)
    for name in list(log.dir):
        if not name.endswith((".cleaned", ".swap")):
            continue
        offset = _offset_of_leftover(name)
        if name.endswith(".cleaned"):
            log.drop_leftover(name, "left by a cleaning that was not finished")
        elif least is not None and offset >= least:
            log.drop_leftover(name, "left by a swap that was not begun for all its files")


def _offset_of_leftover(name: str) -> int:
    offset = offset_in_name(name)
    if offset is None:
        raise BrokerThrows(f"{name}: no offset in the name of a leftover")
    return offset


def finish_swaps(log: PartitionLoading) -> None:
    """Finish complete swaps: remove the files they replace, and rename."""
    swapped = [name for name in log.dir if name.endswith(".swap")]
    logs = [name for name in swapped if name.endswith(".log.swap")]
    if logs:
        first = min(_offset_of_leftover(name) for name in logs)
        end = max(_swap_end(log, name) for name in logs)
        for name in list(log.dir):
            offset = offset_in_name(name)
            if offset is not None and first <= offset < end and not name.endswith(".swap"):
                log.drop_leftover(name, f"replaced by the swap of {first} to {end - 1}")
    for name in swapped:
        target = name.removesuffix(".swap")
        log.say("leftover", offset_in_name(name), f"{name}: the swap is completed")
        if target in log.dir:
            log.dir.remove(target, "replaced by a swap")
        log.dir.rename(name, target, "the swap is completed")


def _swap_end(log: PartitionLoading, name: str) -> int:
    """Return the offset after the last batch of a swapped log, found as a broker finds it."""
    base = _offset_of_leftover(name)
    return max((batch.header.last_offset + 1 for batch in log.batches(name)), default=base)
