"""The damage in `report`: a table of partitions, a card with a map for each, and nearby records."""

from __future__ import annotations

from collections.abc import Iterator

from kafkatool.commands.report.pictures import damage_map
from kafkatool.commands.report.words import counted, finding_counts, lost_ranges
from kafkatool.commands.rows.findings import offsets_text
from kafkatool.commands.screen.html_tables import table
from kafkatool.commands.screen.page import Markup, join, legend_entry, tag
from kafkatool.commands.screen.values import BytesFormat, bytes_text, human_size, iso_time
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.report.gathering import Gathering
from kafkatool.engine.report.records_around import MOST_BYTES, Around, ShownRecord
from kafkatool.engine.report.trouble import DamageMap, Trouble
from kafkatool.engine.verify.finding import Finding

MOST_CARDS = 30
MOST_ROWS = 300
_DAMAGED_HEADS = (
    *(("Partition or file", "name"), ("Worst", "one"), ("Findings", "n")),
    *(("What is wrong", "text"), ("Offsets lost", ""), ("What to do", "text")),
)
_FINDING_HEADS = (
    *(("Severity", "one"), ("Class", "one"), ("File", "one"), ("Bytes", "n"), ("Offsets", "n")),
    *(("What is wrong", "text"), ("Exactly", "text")),
)
_RECORD_HEADS = (("Offset", "n"), ("Time", "one"), ("Key", "name"), ("Value", "text"))
_AT_ONCE = 12
"""Lines of damaged partitions that are visible without a click."""
_OPEN_UP_TO = 6
"""Lists of up to this many findings are open from the start."""


def findings_section(run: Gathering) -> Iterator[Markup]:
    troubles = run.damaged
    notes = run.summary.findings[Severity.NOTE]
    if not troubles:
        words = f"Nothing but {counted(notes, 'note')}." if notes else "Nothing."
        yield tag("p", words)
    else:
        yield from _damaged(run, troubles)
    if notes:
        yield _notes(run, notes)


def _damaged(run: Gathering, troubles: list[Trouble]) -> Iterator[Markup]:
    """Yield a line for each, and a card for the worst of those with more to show."""
    cards = [one for one in troubles if _deserves_a_card(one)][:MOST_CARDS]
    anchors = {id(one): f"trouble-{at}" for at, one in enumerate(cards)}
    classes = ", ".join(f"{name} {count:,}" for name, count in run.classes.most_common())
    yield tag("p", f"{counted(len(troubles), 'partition or file', 'partitions and files')}: {classes}.")
    lines = [_line(one, anchors.get(id(one))) for one in troubles[:MOST_ROWS]]
    yield table(_DAMAGED_HEADS, lines[:_AT_ONCE], stacks=True)
    if lines[_AT_ONCE:]:
        summary = tag("summary", f"{len(lines) - _AT_ONCE:,} more")
        yield tag("details", summary, table(_DAMAGED_HEADS, lines[_AT_ONCE:], stacks=True))
    if len(troubles) > MOST_ROWS:
        yield _left_out(len(troubles) - MOST_ROWS)
    if cards:
        yield _legend()
    for one in cards:
        yield _card(one, anchors[id(one)])


def _deserves_a_card(one: Trouble) -> bool:
    return one.severity is not Severity.DEGRADED or (one.map is not None and one.map.is_marked)


def _left_out(count: int) -> Markup:
    return tag("p", f"{count:,} more are left out; verify lists all.", class_="lead")


def _line(one: Trouble, anchor: str | None) -> list[object]:
    name: object = one.name if anchor is None else tag("a", one.name, href=f"#{anchor}")
    fix = "-" if one.worst.fix is None else tag("code", one.worst.fix)
    what = one.worst.damage.message
    return [name, pill(one.severity), f"{one.total:,}", what, lost_ranges(one) or "-", fix]


def pill(severity: Severity) -> Markup:
    return tag("span", severity.label.replace("_", " "), class_=f"pill {severity.label}")


def _copies(finding: Finding) -> str | None:
    """Return what the newest metadata on the disk says about other replicas."""
    replicas = finding.replicas
    if replicas is None:
        return None
    nodes, in_sync = (", ".join(map(str, some)) for some in (replicas.replicas, replicas.isr))
    when = f"by the metadata of {iso_time(replicas.metadata_ms)}"
    return f"in sync: {in_sync or 'none'} of replicas {nodes}, {when}"


def _legend() -> Markup:
    words = {
        "f-loss": "records lost or unreadable",
        "f-no_start": "a broker would not start",
        "f-degraded": "degraded",
        "ground": "as it should be",
    }
    entries = join(legend_entry(kind, word) for kind, word in words.items())
    return tag("p", entries, "Above the log, below the files beside it.", class_="legend")


def _card(one: Trouble, anchor: str) -> Markup:
    worst = one.worst
    parts: list[object] = [tag("h3", one.name), pill(one.severity)]
    parts.append(tag("p", f"{finding_counts(one)}. The worst of it: {worst.damage.message}."))
    if one.map is not None and one.map.is_marked:
        parts += [damage_map(one.map), _ends(one.map)]
    lost, copies = lost_ranges(one), _copies(worst)
    if lost:
        parts.append(tag("p", tag("b", "Offsets lost: "), lost))
    if copies:
        parts.append(tag("p", tag("b", "Copies: "), copies))
    if worst.fix is not None:
        parts += [tag("p", tag("b", "What to do:")), tag("pre", worst.fix)]
    findings = [two for two in one.kept if two.damage.severity is not Severity.NOTE]
    if findings:
        shown = (
            f"{counted(one.total, 'finding')}"
            if len(findings) == one.total
            else f"{len(findings)} of {one.total:,} findings"
        )
        is_open = "" if len(findings) <= _OPEN_UP_TO else None
        parts.append(tag("details", tag("summary", shown), _details(findings, worst), open=is_open))
    return Markup(tag("article", *parts, class_=f"card {one.severity.label}", id=anchor) + "\n")


def _ends(found: DamageMap) -> Markup:
    segments = counted(len(found.bases), "segment")
    return tag(
        "div",
        tag("span", f"segment {found.bases[0]}"),
        tag("span", f"{human_size(found.size)} in {segments}"),
        tag("span", f"segment {found.bases[-1]}" if len(found.bases) > 1 else "its end"),
        class_="ends",
    )


def _details(findings: list[Finding], worst: Finding) -> Markup:
    return table(_FINDING_HEADS, [_finding_cells(one, worst) for one in findings], stacks=True)


def _finding_cells(one: Finding, worst: Finding) -> list[object]:
    damage = one.damage
    where = f"{damage.position:,}"
    if damage.end_position > damage.position:
        where += f"–{damage.end_position:,}"
    says: object = damage.message
    if one.fix is not None and one.fix != worst.fix:
        says = join([damage.message, tag("pre", one.fix)])
    return [
        pill(damage.severity),
        str(damage.kind),
        one.file.rpartition("/")[2],
        where,
        offsets_text(one) or "-",
        says,
        f"expected {damage.expected}, found {damage.found}",
    ]


def _notes(run: Gathering, count: int) -> Markup:
    kept = [two for one in run.troubles for two in one.kept if two.damage.severity is Severity.NOTE]
    rows = [(one.file, str(one.damage.kind), one.damage.message) for one in kept[:MOST_ROWS]]
    summary = counted(count, "note") + (f", the first {len(rows)}" if len(rows) < count else "")
    heads = (("File", "name"), ("Class", "one"), ("What was noticed", "text"))
    return tag("details", tag("summary", summary), table(heads, rows, stacks=True))


# --- payloads -------------------------------------------------------------------------------------------


def records_section(records: list[tuple[Trouble, list[Around]]] | None) -> Iterator[Markup]:
    """Yield the records around damage; nothing unless payloads were asked for."""
    for trouble, places in records or ():
        for around in places:
            yield from _around(trouble, around)
    if records:
        yield tag("p", f"Of a long key or value the first {MOST_BYTES} bytes.", class_="lead")


def _around(trouble: Trouble, around: Around) -> Iterator[Markup]:
    damage, file = around.finding.damage, around.finding.file.rpartition("/")[2]
    yield tag("p", tag("b", trouble.name), f": {damage.kind} at byte {damage.position:,} of {file}")
    kind = tag("span", str(damage.kind), class_=f"pill {damage.severity.label}")
    gap = [offsets_text(around.finding) or "", "", "", join([kind, damage.message], " ")]
    before, behind = (list(map(_record_cells, some)) for some in (around.before, around.behind))
    yield table(_RECORD_HEADS, [*before, gap, *behind], stacks=True)


def _record_cells(one: ShownRecord) -> list[object]:
    key, value = _payload(one.key, one.key_size), _payload(one.value, one.value_size)
    return [f"{one.offset:,}", iso_time(one.timestamp_ms), key, value]


def _payload(shown: bytes | None, size: int) -> Markup:
    if shown is None:
        return tag("span", "null", class_="soft")
    more = f" … ({human_size(size)})" if size > len(shown) else ""
    return tag("code", bytes_text(shown, BytesFormat.utf8) + more)
