"""What a follower appends, one batch or hundreds at once, by a short way where it is as plain as most is.

Plain: good batches of one leader epoch that the log knows already, without producers, transactions and
control records, that fit into the active segment and its indexes. Everything else goes batch by batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkatool.engine.segment import NewBatch
from kafkatool.format.batch import (
    CONTROL_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_INT32,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from kafkatool.format.checksum import crc32c
from kafkatool.format.kernel import loops

if TYPE_CHECKING:
    from kafkatool.engine.index_runs import RunColumns
    from kafkatool.engine.log import Log

_FEWEST = 8
"""Below that many batches numpy takes longer than it saves."""


class PlainRun(NamedTuple):
    columns: RunColumns
    first_offset: int
    last_offset: int


def plain_batch(log: Log, data: bytes, now_ms: int) -> NewBatch | None:
    """The one batch that `data` is; None where it is more, or not plain."""
    if len(data) < HEADER_SIZE or data[MAGIC_POSITION] != 2 or (latest := log.epochs.latest) is None:
        return None
    header = BatchHeader._make(HEADER.unpack_from(data))
    last, segment = header.base_offset + header.last_offset_delta, log.active
    is_plain = (
        header.batch_length + LOG_OVERHEAD == len(data)
        and header.producer_id < 0
        and not header.attributes & (CONTROL_MASK | TRANSACTIONAL_MASK)
        and header.last_offset_delta >= 0
        and header.partition_leader_epoch == latest.epoch
        and header.base_offset >= log.log_end_offset
        and segment.accounting.has_room_for(1, last)
        and not segment.should_roll(len(data), last, header.max_timestamp, now_ms)
        and crc32c(memoryview(data)[CRC_START:]) == header.crc
    )
    return NewBatch(header, data) if is_plain else None


def plain_run(log: Log, data: bytes, now_ms: int) -> PlainRun | None:
    """The batches of `data` as columns; None where they have to go one by one."""
    if len(data) < _FEWEST * 100 or data[MAGIC_POSITION] != 2 or (latest := log.epochs.latest) is None:
        return None
    end, count, last = loops.good_run(data, 0, len(data), log.log_end_offset - 1)
    if end != len(data) or count < _FEWEST or last > MAX_INT32 + log.active.base_offset:
        return None
    from kafkatool.engine.index_runs import read_run
    from kafkatool.engine.scan import Run

    segment = log.active
    columns = read_run(Run(segment.size, data, 0, end, count), segment.accounting)
    if columns is None:
        return None
    batches = columns.batches
    is_plain = (
        (batches.producer_id < 0).all()
        and not (batches.attributes & (CONTROL_MASK | TRANSACTIONAL_MASK)).any()
        and (batches.partition_leader_epoch == latest.epoch).all()
    )
    if not is_plain or segment.should_roll(end, last, int(batches.max_timestamp.max()), now_ms):
        return None
    return PlainRun(columns, int(batches.base_offset[0]), last)
