"""Decide which neighbouring segments are merged."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.compaction.cleanable_log import SourceSegment
from kafkatool.format.batch import MAX_INT32


def group_segments(
    segments: Sequence[SourceSegment], config: TopicConfig, first_uncleanable: int
) -> list[list[SourceSegment]]:
    """Return runs of segments that fit into one, by current settings; the first of a run always does."""
    groups: list[list[SourceSegment]] = []
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else first_uncleanable
        if groups and _fits(groups[-1], segment, following - 1, config):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(group: list[SourceSegment], segment: SourceSegment, last_offset: int, config: TopicConfig) -> bool:
    together = [*group, segment]
    return (
        sum(one.size for one in together) <= config.segment_bytes
        and sum(one.offset_index_size for one in together) <= config.max_index_bytes
        and sum(one.time_index_size for one in together) <= config.max_index_bytes
        and (segment.size == 0 or last_offset - group[0].base_offset <= MAX_INT32)
    )
