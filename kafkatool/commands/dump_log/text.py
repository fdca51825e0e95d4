"""dump-log in Kafka's own text."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from kafkatool.commands.dump_log.classic.index_files import dump_index, dump_time_index
from kafkatool.commands.dump_log.classic.java_paths import java_path
from kafkatool.commands.dump_log.classic.log_file import LogText
from kafkatool.commands.dump_log.classic.reports import Reports
from kafkatool.commands.dump_log.classic.state_files import dump_snapshot, dump_txn_index
from kafkatool.commands.dump_log.request import (
    AnyRecord,
    DumpRequest,
    Quota,
    opened,
    tails,
    warn_of_secrets,
)
from kafkatool.commands.rows.batches import LogPlace, damage_sentence
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.terminal_text import guarded, harmless, harmless_bytes, is_terminal
from kafkatool.commands.screen.values import stdout
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.batches.tail import Tail
from kafkatool.engine.files.stdin_log import STDIN
from kafkatool.format.names import split_state

_SIDE_FILES = {
    ".index": dump_index,
    ".timeindex": dump_time_index,
    ".txnindex": dump_txn_index,
    ".snapshot": dump_snapshot,
}


class TextDump:
    """Prints files as kafka-dump-log does; additional messages go to stderr."""

    def __init__(self, request: DumpRequest, outcome: RunOutcome, listed: Sequence[str] = ()) -> None:
        self.request = request
        self.options = request.classic
        self.listed = frozenset(listed)
        self.outcome = outcome
        self.quota = Quota(request.limit)
        self.reports = Reports(self.options.release, _say)
        self.out = stdout()
        self.text = guarded(self.out)

    def dump(self, groups: Iterable[list[str]]) -> int:
        """Print all files and Kafka's closing reports; return how many rows there were."""
        for group in groups:
            chosen = tails(group, self.request, self.outcome) if self.request.tail is not None else {}
            for path in group:
                if self.quota.is_spent or (self.request.tail is not None and path not in chosen):
                    continue
                self._dump_file(path, chosen.get(path))
        self.out.flush()
        self.reports.finish()
        return self.quota.shown

    def _dump_file(self, path: str, tail: Tail | None) -> None:
        self.emit(f"Dumping {java_path(path)}")
        suffix = self._suffix(path)
        if suffix in (".log", ".checkpoint") or path == STDIN:
            self._dump_log(path, tail)
        elif suffix in _SIDE_FILES:
            place = LogPlace.of(path, self.request.guest)
            _SIDE_FILES[suffix](
                path, self.options, self.reports, self.emit, lambda d: self._note_file(place, d)
            )
            self.quota.shown += 1
        else:
            self.out.flush()
            self.reports.unknown_file(path)
            self.outcome.unread.append(path)

    def _suffix(self, path: str) -> str:
        """Return the extension. Kafka takes what follows the last dot, so it does not know `x.log.deleted`.

        This applies to files named with --files; those named as paths are read as what they were.
        """
        if path in self.request.read_as:
            return f".{self.request.read_as[path].name}"
        name = os.path.basename(path)
        if path not in self.listed:
            name, _state = split_state(name)
        return name[name.rindex(".") :] if "." in name else ""

    def _dump_log(self, path: str, tail: Tail | None) -> None:
        place = LogPlace.of(path, self.request.guest)
        warn_of_secrets(self.request, place)
        page = _DumpedPage(self, place)
        text = LogText(path, self.options, self.reports, page, self._choose if self._is_choosy else None)
        text.heading()
        with opened(path, self.request, self.outcome) as source:
            if source is None:
                return
            self.quota.skip = tail.skip if tail else 0
            size = source.size_hint if source.size_hint is not None else 0
            if self._counts:
                text.dump(self._counted(self.request.walk(source, path, tail, chain=True)), size)
            else:
                self.quota.shown += 1
                text.dump(self.request.runs(source, chain=True), size)

    @property
    def _counts(self) -> bool:
        """Whether the number of rows matters: to stop, to begin late, or to report that there was none."""
        request = self.request
        return request.limit is not None or request.tail is not None or not request.takes_everything

    @property
    def _is_choosy(self) -> bool:
        return self.request.shows_records and self._counts

    def _choose(self, record: AnyRecord, batch: Batch) -> bool:
        return self.request.chosen.takes(record, batch) and self.quota.take()

    def _counted(self, walk: Iterator[Batch | Damage]) -> Iterator[Batch | Damage]:
        for item in walk:
            if self.quota.is_spent:
                return
            if isinstance(item, Damage) or self._is_choosy or self.quota.take():
                yield item

    def emit(self, text: str) -> None:
        self.text.write(text + "\n")

    def emit_bytes(self, text: bytes) -> None:
        self.out.flush()
        self.out.buffer.write(harmless_bytes(text) if is_terminal(self.out) else text)

    def _note_file(self, place: LogPlace, damage: Damage) -> None:
        """Report damage in a side file; one that cannot be opened counts as failed."""
        if damage.kind is FindingClass.UNREADABLE or not os.path.exists(place.path):
            self.outcome.failed = True
        self.note(place, damage)

    def note(self, place: LogPlace, damage: Damage) -> None:
        self.outcome.met(damage)
        self.out.flush()
        if damage.severity is Severity.NOTE:
            self.request.talk.detail(damage_sentence(place, damage))
        else:
            self.request.talk.warn(damage_sentence(place, damage))


class _DumpedPage:
    """The text of one log on standard output."""

    def __init__(self, dump: TextDump, place: LogPlace) -> None:
        self.emit = dump.emit
        self.emit_bytes = dump.emit_bytes
        self._dump = dump
        self._place = place

    def note(self, damage: Damage) -> None:
        self._dump.note(self._place, damage)


def _say(line: str) -> None:
    print(harmless(line) if is_terminal(sys.stderr) else line, file=sys.stderr, flush=True)
