"""The output of `sql`: the answer, and how much of the logs is missing from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatool.commands.screen.table import Column, Look, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import BytesFormat, Format, Row
from kafkatool.errors import ExitCode, KafkatoolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkatool.spark.queries import Met


def tell_met(met: Met, paths: Sequence[str], talk: Talk) -> ExitCode:
    """Report how much of the logs is missing from the answer."""
    for path in met.vanished[:10]:
        talk.note(f"{path}: deleted since its directory was listed")
    if not met.damages:
        return ExitCode.OK
    from kafkatool.engine.advice.table import Advice, Placeholder
    from kafkatool.engine.directory.roots import split_label

    named: list[str] = [split_label(path)[1] for path in paths]
    verify = Advice.VERIFY(where=named if len(named) <= 3 else Placeholder("<PATHS>"))
    talk.warn(
        f"{met.damages} damaged {'place' if met.damages == 1 else 'places'} in {met.logs} "
        f"{'log' if met.logs == 1 else 'logs'} that the query reads, and the answer leaves them out; "
        f"the first: {met.first}; `{verify}` shows all"
    )
    return ExitCode.FOUND


def look_first(query: str, paths: Sequence[str], guest: Any, talk: Talk) -> None:
    """Report what cannot be read, before Spark is started."""
    from kafkatool.format.names import METADATA_TOPIC
    from kafkatool.spark.planning import find_subjects

    found = find_subjects(paths, guest)
    if found.unread:
        raise KafkatoolError(
            f"{'; '.join(found.unread)}: the answer would be incomplete; name only what can be read"
        )
    for problem in found.problems:
        talk.warn(problem)
    if any(subject.partition.topic == METADATA_TOPIC for _root, subject in found.subjects) and (
        "records" in query.lower()
    ):
        talk.warn(f"{METADATA_TOPIC}: may show credentials and sensitive configs; cat --redact hides them")


def show(table: Any, fmt: Format, how: BytesFormat, *, raw: bool) -> None:
    """Print the rows of the answer."""
    from kafkatool.spark.queries import rows_of

    columns = tuple(
        Column(field.name, field.name.upper(), Look.number if _is_number(field.type) else Look.text)
        for field in table.schema
    )
    with rows(fmt, columns, raw=raw, how=how) as out:
        for row in rows_of(table):
            shown: Row = {name: _plain(value) for name, value in row.items()}
            out.write({"kind": "row", **shown} if fmt is Format.ndjson else shown)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _plain(value: Any) -> Any:
    """Convert a value to what JSON and columns take: times and exact numbers as text."""
    import datetime
    import decimal

    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, datetime.date | datetime.timedelta | decimal.Decimal):
        return str(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value
