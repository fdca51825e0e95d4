"""Append hundreds of batches at once as a follower, by a fast path for plain ones, as most are.

Plain: valid batches of one leader epoch that the log knows already, without producers, transactions and
control records, that fit into the active segment and its indexes. Everything else goes batch by batch; for a
single plain batch there is `Segment.append_plain`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkatool.format.batch import CONTROL_MASK, MAGIC_POSITION, MAX_INT32, TRANSACTIONAL_MASK
from kafkatool.format.kernel import loops
from kafkatool.format.primitives import Buffer

if TYPE_CHECKING:
    from kafkatool.engine.broker.run_accounting import RunColumns
    from kafkatool.engine.log.segment import WritableSegment

_FEWEST = 8
"""With fewer batches numpy costs more time than it saves."""


class PlainRun(NamedTuple):
    columns: RunColumns
    first_offset: int
    last_offset: int


def plain_run(
    segment: WritableSegment, data: Buffer, next_offset: int, leader_epoch: int, now_ms: int
) -> PlainRun | None:
    """Return the batches of `data` as columns; None if they have to go one by one.

    `segment` is the active one, `next_offset` the log end offset.
    """
    if len(data) < _FEWEST * 100 or data[MAGIC_POSITION] != 2:
        return None
    end, count, last = loops.good_run(data, 0, len(data), next_offset - 1)
    if end != len(data) or count < _FEWEST or last > MAX_INT32 + segment.base_offset:
        return None
    from kafkatool.engine.batches.scan import BatchRun
    from kafkatool.engine.broker.run_accounting import read_run

    run = BatchRun(segment.size, data, 0, end, count)  # type: ignore[arg-type]  # any buffer does, as columns
    columns = read_run(run, segment.accounting)
    if columns is None:
        return None
    batches = columns.batches
    is_plain = (
        (batches.producer_id < 0).all()
        and not (batches.attributes & (CONTROL_MASK | TRANSACTIONAL_MASK)).any()
        and (batches.partition_leader_epoch == leader_epoch).all()
    )
    if not is_plain or segment.should_roll(end, last, int(batches.max_timestamp.max()), now_ms):
        return None
    return PlainRun(columns, int(batches.base_offset[0]), last)
