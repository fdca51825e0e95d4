"""Retention as rows: verdicts with their reasons in words, settings, changes, and the forecast."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.table import Column, Look
from kafkatool.commands.screen.values import Row, human_duration, human_size, iso_time
from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.row_fields import (
    PARTITION,
    REPLICAS,
    TOPIC,
    flag,
    inside,
    int64,
    size,
    text,
    time_ms,
    values,
    word,
)
from kafkatool.engine.directory.log_dir import PartitionState
from kafkatool.engine.retention.rules import Decision, RetentionRule, TimeSource

if TYPE_CHECKING:
    from kafkatool.engine.retention.forecast import Departure, Point
    from kafkatool.engine.retention.free import SettingChange
    from kafkatool.engine.retention.held import HeldBack
    from kafkatool.engine.retention.logs import JudgedLog
    from kafkatool.engine.retention.rules import RetentionVerdict, SegmentFacts

VERDICTS = RowTable(
    "verdict",
    "retention",
    "What the next check of a broker does with a segment, and the numbers it compares.",
    *PARTITION,
    *inside(
        "segment",
        int64("segment", "base offset of the segment", "base_offset"),
        size("size", "bytes of its records, without indexes and room only reserved"),
    ),
    word("verdict", "keep, delete, unknown", "decision"),
    word(
        "rule",
        "start_offset, size, time, active, high_watermark, after_kept (an older one stays), "
        "policy, remote (not copied yet)",
    ),
    text("message", "the reason in words"),
    time_ms("at_ms", "the moment of the check"),
    *inside(
        "segment",
        time_ms("largest_timestamp_ms", "the timestamp that counts for it", "largest_ms"),
        word("largest_timestamp_from", "time_index, records, or mtime: the time of the file", "largest_from"),
        int64(
            "largest_timestamp_offset",
            "the offset that has it; null where that is not known",
            "largest_offset",
        ),
        time_ms(
            "records_largest_timestamp_ms",
            "what the records say, where that is known and something else",
            "log_largest_ms",
        ),
        int64("records_largest_timestamp_offset", "the offset that has that one", "log_largest_offset"),
    ),
    time_ms("retention_ms", "the limit of time; -1 for none. Of a tiered topic that copies, the local one"),
    size("retention_bytes", "the limit of size; -1 for none; likewise"),
    int64(
        "remote_offset",
        "the highest offset in remote storage, of a tiered topic that copies, by "
        "__remote_log_metadata or --remote-offset; -1 for none; null where it is not known",
    ),
    size("log_size", "bytes of all segments before the check"),
    size("excess", "bytes above retention_bytes when this segment's turn came; null where it did not come"),
    int64("upper_offset", "the offset that the high watermark must have reached for it to go"),
    int64("high_watermark", "the high watermark"),
    flag("high_watermark_is_assumed", "whether that is only the end of the log"),
    int64("log_start", "the log start offset"),
    int64("log_end", "the log end offset"),
    *inside(
        "held_by",
        int64(
            "held_by", "base offset of the oldest segment that stays, if that is another one", "base_offset"
        ),
    ),
    time_ms("goes_ms", "when time alone lets it go; null for never"),
    flag("is_active", "whether it is the segment that is written to"),
    *REPLICAS,
)
VERDICT_COLUMNS = VERDICTS.columns(
    partition_name="PARTITION",
    segment="SEGMENT",
    size="SIZE",
    largest_timestamp_ms="LARGEST TIME",
    verdict="VERDICT",
    rule="RULE",
    message="WHY",
)
_WITHIN = time_ms("within_ms", "the longest it takes: until the next check, and file.delete.delay.ms")
HELD = RowTable(
    "held",
    "retention",
    "Expired data that only a time in the future holds back (--free): ranks before all changes.",
    int64("rank", "1: with it go all of that rank, changes of settings too where more is wanted"),
    *inside("judged.partition", *PARTITION),
    *inside(
        "future",
        int64(
            "record_offset",
            "the record that holds longest: its own offset, not that of its batch",
            "latest_offset",
        ),
        time_ms("record_timestamp_ms", "its time", "latest_ms"),
        int64(
            "future_records",
            "number of records with a time in the future that the command deletes",
            "count",
        ),
    ),
    int64("first_offset", "the first offset that the command deletes"),
    int64("last_offset", "the last one", lambda held: held.offset - 1),
    size("freed", "bytes on this disk that go besides what goes anyway, with the check after the command"),
    int64("segments", "number of segments that do"),
    _WITHIN,
    text("message", "what is deleted, in words", lambda held: held_sentence(held)),
    text("delete_command", "the command that does it; there is no way back"),
)
HELD_COLUMNS = HELD.columns(
    rank="RANK",
    partition_name="PARTITION",
    record_offset="FUTURE OFFSET",
    record_timestamp_ms="ITS TIME",
    first_offset="DELETE FROM",
    last_offset="TO",
    freed="FREES",
    segments="SEGMENTS",
    within="WITHIN",
)
CHANGES = RowTable(
    "change",
    "retention",
    "A change of a setting that frees space (--free). Those of one rank go together.",
    int64("rank", "lowest for the way that frees the least of what is enough, after what is held back"),
    text("topic", "the topic"),
    text("setting", "retention.ms, retention.bytes, or the local ones", "setting.name"),
    int64("value", "the value to set"),
    text("old_value", "the value now", "setting.text"),
    word("old_origin", "where that comes from", "setting.origin"),
    size("freed", "bytes on this disk that go besides what goes anyway"),
    int64("segments", "number of segments that do"),
    _WITHIN,
    text("set_command", "the command that makes the change"),
    text("undo_command", "the one that takes it back; what was deleted stays deleted"),
)
CHANGE_COLUMNS = CHANGES.columns(
    rank="RANK",
    topic="TOPIC",
    setting="SETTING",
    old_value=Column("old_value", "NOW", Look.number),
    value="NEW",
    freed="FREES",
    segments="SEGMENTS",
    within="WITHIN",
)
DEPARTURES = RowTable(
    "departure",
    "retention",
    "A segment of today that goes within the time looked at (--forecast).",
    *inside("judged.partition", *TOPIC),
    int64("segment", "base offset of the segment", "segment.base_offset"),
    size("size", "bytes of its records", "segment.size"),
    word("rule", "start_offset, size, time"),
    time_ms("goes_ms", "when it may go, by time; or the step by which it is gone"),
)
DEPARTURE_COLUMNS = DEPARTURES.columns(
    partition_name="PARTITION", segment="SEGMENT", size="SIZE", rule="RULE", goes_ms="GOES"
)
FORECASTS = RowTable(
    "forecast",
    "retention",
    "All logs together at one moment to come (--forecast).",
    time_ms("at_ms", "the moment"),
    size("size", "bytes of all logs"),
    int64("segments", "number of segments"),
    size("deleted", "bytes that went since the step before"),
)
FORECAST_COLUMNS = FORECASTS.columns(
    at_ms="TIME", size="SIZE", deleted="GONE", bar=Column("bar", "", blank="")
)
BAR_WIDTH = 34  # with a time and two sizes before it, at most 80 columns
_NOT_ASKED = {
    PartitionState.METADATA: "the metadata log is cut behind its snapshots, by settings of its own",
    PartitionState.STRAY: "a broker leaves a stray partition alone",
    PartitionState.DELETED: "the whole directory waits to be deleted",
}


# --- verdicts -----------------------------------------------------------------------------------------


def verdict_row(judged: JudgedLog, verdict: RetentionVerdict, now_ms: int) -> Row:
    facts, limits = judged.facts, judged.limits
    return VERDICTS.row(
        verdict,
        **values(PARTITION, judged.partition),
        message=why(judged, verdict, now_ms),
        at_ms=now_ms,
        retention_ms=limits.retention_ms,
        retention_bytes=limits.retention_bytes,
        remote_offset=limits.remote_offset,
        log_size=facts.size,
        high_watermark=facts.high_watermark,
        high_watermark_is_assumed=judged.watermark_is_assumed,
        log_start=facts.log_start,
        log_end=facts.log_end,
        **values(REPLICAS, judged.replicas),
    )


def why(judged: JudgedLog, verdict: RetentionVerdict, now_ms: int) -> str:
    """Return the numbers that were compared, in a sentence."""
    if not judged.is_asked:
        return _NOT_ASKED[judged.partition.state]
    words = _unknown(judged, verdict) if verdict.decision is Decision.UNKNOWN else None
    doubts = list(_doubts(verdict.segment))
    if verdict.decision is Decision.DELETE and "compact" in judged.limits.policy:
        doubts.append("unless the cleaner has given this partition up, which no file tells")
    return "; ".join([words or _reason(judged, verdict, now_ms), *doubts])


def _unknown(judged: JudgedLog, verdict: RetentionVerdict) -> str:
    return (
        f"goes by {verdict.rule} if offsets up to {verdict.upper_offset - 1} are in remote storage, which no "
        "file here tells: --remote-offset N"
    )


def unknown_sentence(judged: JudgedLog) -> str:
    """Say what is missing to judge a partition, and where it can be found."""
    return (
        f"{judged.partition.path}: {_count(judged.unknown)} cannot be judged: how far it is copied to remote "
        "storage is not known here: name also the directory that holds its __remote_log_metadata, or say "
        "--remote-offset N"
    )


def _reason(judged: JudgedLog, verdict: RetentionVerdict, now_ms: int) -> str:
    facts, rule = judged.facts, verdict.rule
    if rule is RetentionRule.START_OFFSET:
        return f"all of it lies below the log start offset {facts.log_start}"
    if rule is RetentionRule.HIGH_WATERMARK:
        return f"reaches to offset {verdict.upper_offset}, above the high watermark {facts.high_watermark}"
    if rule is RetentionRule.ACTIVE:
        is_empty = verdict.segment.size == 0
        return (
            "the active segment, and empty"
            if is_empty
            else "the active segment; all of it is below the start"
        )
    if rule is RetentionRule.REMOTE:
        return f"not copied yet: remote storage ends at offset {judged.limits.remote_offset}"
    if rule is RetentionRule.AFTER_KEPT:
        return _held(judged, verdict, now_ms)
    if rule is RetentionRule.POLICY:
        return _policy(judged)
    return _limits(judged, verdict, now_ms)


def _held(judged: JudgedLog, verdict: RetentionVerdict, now_ms: int) -> str:
    assert verdict.held_by is not None
    holder = verdict.held_by
    words = f"has expired, but segment {holder.base_offset} before it stays"
    if holder.largest_ms > now_ms and holder.largest_offset is not None:
        words += (
            f" until {iso_time(verdict.goes_ms)}: offset {holder.largest_offset} has a time in the future"
        )
    return words


def _policy(judged: JudgedLog) -> str:
    limits = judged.limits
    policy = ",".join(limits.policy) or "none"
    if not limits.is_retained:
        return f"cleanup.policy={policy} and log.cleaner.enable=false: nobody ever asks"
    if not limits.by_limits:
        return f"cleanup.policy={policy}: only what lies below the log start offset goes"
    return "neither retention.ms nor retention.bytes is a limit"


def _limits(judged: JudgedLog, verdict: RetentionVerdict, now_ms: int) -> str:
    limits, segment = judged.limits, verdict.segment
    prefix = "local." if limits.copies else ""
    words = []
    if limits.retention_ms >= 0 and verdict.rule is not RetentionRule.SIZE:
        age, limit = now_ms - segment.largest_ms, f"{prefix}retention.ms={limits.retention_ms}"
        if age > limits.retention_ms:
            words.append(f"{human_duration(age)} old, over {limit} ({human_duration(limits.retention_ms)})")
        elif age < 0:
            at = "" if segment.largest_offset is None else f" at offset {segment.largest_offset}"
            words.append(
                f"its time{at} is {human_duration(-age)} in the future: holds itself and all behind it"
            )
        else:
            words.append(f"{human_duration(age)} old, within {limit} ({human_duration(limits.retention_ms)})")
    if limits.retention_bytes >= 0 and (
        verdict.rule is RetentionRule.SIZE or verdict.decision is Decision.KEEP
    ):
        words.append(_size(judged, verdict, f"{prefix}retention.bytes={limits.retention_bytes}"))
    return ", ".join(words)


def _size(judged: JudgedLog, verdict: RetentionVerdict, limit: str) -> str:
    if verdict.excess is None:
        if judged.facts.size < judged.limits.retention_bytes:
            return f"the log has {judged.facts.size} bytes, below {limit}"
        return f"{limit} is reached without it"
    words = (
        "goes"
        if verdict.rule is RetentionRule.SIZE and verdict.decision is not Decision.KEEP
        else "is too large to go"
    )
    return f"{verdict.excess} bytes above {limit}, this one has {verdict.segment.size} and {words}"


def _doubts(segment: SegmentFacts) -> Iterator[str]:
    """Yield the doubts about the time that counts, where it is not the records' own."""
    if segment.largest_from is TimeSource.MTIME:
        yield "without a timestamp, so the time of the file counts"
    if segment.log_largest_ms is not None and segment.log_largest_ms >= 0:
        yield (
            f"its time index does not say so, but its records reach {iso_time(segment.log_largest_ms)} at "
            f"offset {segment.log_largest_offset}"
        )
    elif segment.log_largest_ms is not None:
        yield "no record in it has the time that its time index says"


# --- settings, changes, forecast ------------------------------------------------------------------------


def change_row(rank: int, change: SettingChange, within_ms: int) -> Row:
    name, topic = change.setting.name, change.topic
    undo = Advice.SET_CONFIG(topic=topic, setting=f"{name}={change.undo_value}")
    if change.undo_value is None:
        undo = Advice.UNSET_CONFIG(topic=topic, setting=name)
    set_command = Advice.SET_CONFIG(topic=topic, setting=f"{name}={change.value}")
    return CHANGES.row(change, rank=rank, within_ms=within_ms, set_command=set_command, undo_command=undo)


def held_row(rank: int, held: HeldBack, within_ms: int) -> Row:
    partition = held.judged.partition
    place = {"topic": partition.topic, "partition": partition.partition, "offset": held.offset}
    plan = json.dumps({"partitions": [place], "version": 1}, separators=(",", ":"))
    command = Advice.DELETE_RECORDS(plan=plan)
    return HELD.row(held, rank=rank, within_ms=within_ms, delete_command=command)


def held_sentence(held: HeldBack) -> str:
    """Say what the command deletes, on all replicas and for good, and what is deleted as a result."""
    name, future = held.judged.partition.directory, held.future
    others = f" and {future.count - 1} more" if future.count > 1 else ""
    latest = f"offset {future.latest_offset} of {iso_time(future.latest_ms)}{others}"
    return (
        f"deletes offsets {held.first_offset} to {held.offset - 1} of {name} on every replica, for good: all "
        f"have expired by retention.ms={held.judged.limits.retention_ms} but what has a time in the future, "
        f"{latest}; the next check then deletes what that held back, {_count(held.segments)} in all"
    )


def departure_row(departure: Departure) -> Row:
    return DEPARTURES.row(departure)


def forecast_row(point: Point) -> Row:
    return FORECASTS.row(point)


def bar(size: int, largest: int) -> str:
    """Draw a size as a bar of plain characters."""
    return "#" * round(BAR_WIDTH * size / largest) if largest else ""


def gone_sentence(path: str, segments: int, freed: int, unknown: int, check_ms: int, delay_ms: int) -> str:
    doubt = f"; {_count(unknown)} cannot be judged" if unknown else ""
    if not segments:
        return f"{path}: nothing {'is known that ' if unknown else ''}would be deleted{doubt}"
    return (
        f"{path}: {_count(segments)} would be deleted, {human_size(freed)} on the disk; a broker looks every "
        f"{human_duration(check_ms)} and unlinks {human_duration(delay_ms)} later{doubt}"
    )


def _count(segments: int) -> str:
    return f"{segments} segment{'s' if segments != 1 else ''}"
