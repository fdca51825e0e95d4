"""Retention as rows: verdicts with their reasons in words, settings, changes, and what is to come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkatool.commands.screen.table import Column, Look
from kafkatool.commands.screen.values import Row, human_duration, human_size, iso_time
from kafkatool.engine.advice.table import Advice
from kafkatool.engine.directory.log_dir import PartitionState
from kafkatool.engine.retention.rules import Decision, RetentionRule, TimeSource

if TYPE_CHECKING:
    from kafkatool.engine.retention.forecast import Departure, Point
    from kafkatool.engine.retention.free import SettingChange
    from kafkatool.engine.retention.held import HeldBack
    from kafkatool.engine.retention.logs import JudgedLog
    from kafkatool.engine.retention.rules import RetentionVerdict, SegmentFacts

VERDICT_COLUMNS = (
    Column("partition_name", "PARTITION"),
    Column("segment", "SEGMENT", Look.number),
    Column("size", "SIZE", Look.size),
    Column("largest_timestamp_ms", "LARGEST TIME", Look.time),
    Column("verdict", "VERDICT"),
    Column("rule", "RULE"),
    Column("message", "WHY"),
)
CHANGE_COLUMNS = (
    Column("rank", "RANK", Look.number),
    Column("topic", "TOPIC"),
    Column("setting", "SETTING"),
    Column("old_value", "NOW", Look.number),
    Column("value", "NEW", Look.number),
    Column("freed", "FREES", Look.size),
    Column("segments", "SEGMENTS", Look.number),
    Column("within", "WITHIN"),
)
HELD_COLUMNS = (
    Column("rank", "RANK", Look.number),
    Column("partition_name", "PARTITION"),
    Column("record_offset", "FUTURE OFFSET", Look.number),
    Column("record_timestamp_ms", "ITS TIME", Look.time),
    Column("first_offset", "DELETE FROM", Look.number),
    Column("last_offset", "TO", Look.number),
    Column("freed", "FREES", Look.size),
    Column("segments", "SEGMENTS", Look.number),
    Column("within", "WITHIN"),
)
DEPARTURE_COLUMNS = (
    Column("partition_name", "PARTITION"),
    Column("segment", "SEGMENT", Look.number),
    Column("size", "SIZE", Look.size),
    Column("rule", "RULE"),
    Column("goes_ms", "GOES", Look.time),
)
FORECAST_COLUMNS = (
    Column("at_ms", "TIME", Look.time),
    Column("size", "SIZE", Look.size),
    Column("deleted", "GONE", Look.size),
    Column("bar", "", blank=""),
)
BAR_WIDTH = 34  # with a time and two sizes before it, no more than 80 columns
_NOT_ASKED = {
    PartitionState.METADATA: "the metadata log is cut behind its snapshots, by settings of its own",
    PartitionState.STRAY: "a broker leaves a stray partition alone",
    PartitionState.DELETED: "the whole directory waits to be deleted",
}


# --- verdicts -----------------------------------------------------------------------------------------


def verdict_row(judged: JudgedLog, verdict: RetentionVerdict, now_ms: int) -> Row:
    segment, limits, replicas = verdict.segment, judged.limits, judged.replicas
    return {
        "kind": "verdict",
        "topic": judged.partition.topic,
        "partition": judged.partition.partition,
        "directory": judged.partition.path,
        "segment": segment.base_offset,
        "size": segment.size,
        "verdict": str(verdict.decision),
        "rule": str(verdict.rule),
        "message": why(judged, verdict, now_ms),
        "at_ms": now_ms,
        "largest_timestamp_ms": segment.largest_ms,
        "largest_timestamp_from": str(segment.largest_from),
        "largest_timestamp_offset": segment.largest_offset,
        "records_largest_timestamp_ms": segment.log_largest_ms,
        "records_largest_timestamp_offset": segment.log_largest_offset,
        "retention_ms": limits.retention_ms,
        "retention_bytes": limits.retention_bytes,
        "remote_offset": limits.remote_offset,
        "log_size": judged.facts.size,
        "excess": verdict.excess,
        "upper_offset": verdict.upper_offset,
        "high_watermark": judged.facts.high_watermark,
        "high_watermark_is_assumed": judged.watermark_is_assumed,
        "log_start": judged.facts.log_start,
        "log_end": judged.facts.log_end,
        "held_by": verdict.held_by.base_offset if verdict.held_by else None,
        "goes_ms": verdict.goes_ms,
        "is_active": verdict.is_active,
        "replicas": list(replicas.replicas) if replicas else None,
        "isr": list(replicas.isr) if replicas else None,
        "leader": replicas.leader if replicas else None,
        "metadata_ms": replicas.metadata_ms if replicas else None,
    }


def why(judged: JudgedLog, verdict: RetentionVerdict, now_ms: int) -> str:
    """The numbers that were compared, in a sentence."""
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
    """What is missing to judge a partition, and who knows it."""
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
    """Where the time that counts is not that of the records."""
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
    return {
        "kind": "change",
        "rank": rank,
        "topic": change.topic,
        "setting": name,
        "value": change.value,
        "old_value": change.setting.text,
        "old_origin": str(change.setting.origin),
        "freed": change.freed,
        "segments": change.segments,
        "within_ms": within_ms,
        "set_command": Advice.SET_CONFIG(topic=topic, setting=f"{name}={change.value}"),
        "undo_command": undo,
    }


def held_row(rank: int, held: HeldBack, within_ms: int) -> Row:
    partition, future = held.judged.partition, held.future
    place = {"topic": partition.topic, "partition": partition.partition, "offset": held.offset}
    plan = json.dumps({"partitions": [place], "version": 1}, separators=(",", ":"))
    return {
        "kind": "held",
        "rank": rank,
        "topic": partition.topic,
        "partition": partition.partition,
        "directory": partition.path,
        "record_offset": future.latest_offset,
        "record_timestamp_ms": future.latest_ms,
        "future_records": future.count,
        "first_offset": held.first_offset,
        "last_offset": held.offset - 1,
        "freed": held.freed,
        "segments": held.segments,
        "within_ms": within_ms,
        "message": held_sentence(held),
        "delete_command": Advice.DELETE_RECORDS(plan=plan),
    }


def held_sentence(held: HeldBack) -> str:
    """What the command deletes, on all replicas and for good, and what goes because of it."""
    name, future = held.judged.partition.directory, held.future
    others = f" and {future.count - 1} more" if future.count > 1 else ""
    latest = f"offset {future.latest_offset} of {iso_time(future.latest_ms)}{others}"
    return (
        f"deletes offsets {held.first_offset} to {held.offset - 1} of {name} on every replica, for good: all "
        f"have expired by retention.ms={held.judged.limits.retention_ms} but what has a time in the future, "
        f"{latest}; the next check then deletes what that held back, {_count(held.segments)} in all"
    )


def departure_row(departure: Departure) -> Row:
    partition = departure.judged.partition
    return {
        "kind": "departure",
        "topic": partition.topic,
        "partition": partition.partition,
        "segment": departure.segment.base_offset,
        "size": departure.segment.size,
        "rule": str(departure.rule),
        "goes_ms": departure.goes_ms,
    }


def forecast_row(point: Point) -> Row:
    return {
        "kind": "forecast",
        "at_ms": point.at_ms,
        "size": point.size,
        "segments": point.segments,
        "deleted": point.deleted,
    }


def bar(size: int, largest: int) -> str:
    """A size as a bar of plain characters."""
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
