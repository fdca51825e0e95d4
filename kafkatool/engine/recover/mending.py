"""Flip bits back in logs that a recovery may mend, before it loads them.

Every log is checked, also below the recovery point, where a broker does not look and a consumer fails.
"""

from __future__ import annotations

from kafkatool.engine.batches.mending import Mender
from kafkatool.engine.files.source import FileSource, Guest, open_source
from kafkatool.engine.recover.result import PartitionLoading, offset_in_name
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.names import FileState


def mend_logs(log: PartitionLoading, guest: Guest) -> None:
    """Plan to write the mended bytes, and report each batch; do nothing if `guest` does not mend."""
    if not isinstance(guest.mending, Mender):
        return
    for name in log.dir:
        found = kinds.kind_of(name)
        if found.kind is kinds.LOG and found.state is FileState.LIVE:
            _mend_log(log, name, guest, guest.mending)


def _mend_log(log: PartitionLoading, name: str, guest: Guest, mender: Mender) -> None:
    path = log.dir.path_of(name)
    try:
        with open_source(path, guest) as source:
            assert isinstance(source, FileSource)
            mends, patches = mender.of(source), source.patches
    except (FileNotFoundError, KafkatoolError):
        return  # whoever needs this log hits the same error, and reports it
    log.result.mends += mends
    done = [mend for mend in mends if mend.is_mended]
    for mend in done:
        log.say(
            "mend",
            offset_in_name(name),
            f"{name}: {mend.message}",
            position=mend.position,
            first_offset=mend.first_offset,
            last_offset=mend.last_offset,
        )
    if patches:
        bits = ", ".join(f"bit {mend.bit} of byte {mend.byte}" for mend in done)
        log.dir.mend(name, patches, f"flipped back: {bits}")
