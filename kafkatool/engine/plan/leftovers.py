"""What killed runs left: open journals, temporary files, work directories.

They do no harm, and only kafkatool ever removes them. What is provably kafkatool's and of no use to anyone
goes with the next `--apply`: temporary files whose journal is present, journals of runs that changed nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kafkatool.engine.advice.table import Placeholder
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.lock import hold_lock, refuse_if_in_use
from kafkatool.engine.jobs.events import Caution
from kafkatool.engine.plan.applying import disk_for, undo_command
from kafkatool.engine.plan.journal import Journal, is_called_like_a_journal, is_torn_journal, look_at_journal
from kafkatool.engine.plan.steps import Applying, Plan
from kafkatool.engine.plan.work_directory import left_work_directories, remove_work_directory
from kafkatool.errors import KafkatoolError
from kafkatool.format.kinds import parse_kept_name


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that a run left; `is_waste` if the next `--apply` may remove it."""

    path: str
    what: str
    is_waste: bool
    is_directory: bool = False


def find_leftovers(log_dir: str, directories: Iterable[str], backup_dir: str | None = None) -> list[Leftover]:
    """Return the leftovers in a log directory, in these partitions of it, and where originals are kept."""
    homes = {os.path.realpath(one) for one in (log_dir, *directories, *([backup_dir] if backup_dir else []))}
    kept = [name for home in sorted(homes) for name in _kept_files(home)]
    found: list[Leftover] = []
    journals: dict[str, Journal] = {}
    for path, run, is_temporary in kept:
        if not is_temporary and is_called_like_a_journal(path):
            with suppress(KafkatoolError):
                journals[run] = look_at_journal(path)
            found += _judge_journal(path, run, journals.get(run), kept)
    for path, run, is_temporary in kept:
        if is_temporary:
            found.append(_judge_temporary(path, run in journals))
    found += [
        Leftover(path, "the work directory of a compact that was killed", is_waste=is_ours, is_directory=True)
        for path, is_ours in left_work_directories(log_dir)
    ]
    return found


def leftovers_named(
    log_dir: str, directories: Sequence[str], how: Applying, *, is_applied: bool
) -> Iterator[Caution]:
    """Report what killed runs left where a plan is about to be made; remove the waste if it is applied.

    Raises Refused if there is waste to remove while a broker uses the directory.
    """
    left = find_leftovers(log_dir, directories, how.backup_dir)
    removed = set()
    if is_applied and any(one.is_waste for one in left):
        refuse_if_in_use(log_dir, offline=how.offline, now_ms=how.now_ms)
        files = disk_for(Plan("", log_dir, ()), how)
        with hold_lock(log_dir, files):
            removed = set(remove_waste(find_leftovers(log_dir, directories, how.backup_dir), files))
    for one in left:
        ending = ": removed" if one.path in removed else ": --apply removes it" if one.is_waste else ""
        yield Caution(f"{one.path}: {one.what}{ending}")


def remove_waste(leftovers: Iterable[Leftover], files: Files) -> list[str]:
    """Remove the waste, under the lock of the log directory; return the removed paths."""
    gone = []
    # Journals last: they prove that the others are kafkatool's.
    for one in sorted(leftovers, key=lambda one: is_called_like_a_journal(one.path)):
        if not one.is_waste:
            continue
        if one.is_directory:
            remove_work_directory(one.path)
        else:
            files.unlink(one.path)
        gone.append(one.path)
    for directory in sorted({os.path.dirname(path) for path in gone}):
        with suppress(KafkatoolError):  # outside the log directory
            files.sync_directory(directory)
    return gone


def _kept_files(home: str) -> Iterator[tuple[str, str, bool]]:
    """Yield kafkatool's own regular files in a directory: path, run, whether it is temporary."""
    try:
        with os.scandir(home) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                named = parse_kept_name(entry.name)
                if named is not None and entry.is_file(follow_symlinks=False):
                    yield os.path.join(home, entry.name), named.run, named.is_temporary
    except OSError:
        return


def _judge_journal(
    path: str, run: str, journal: Journal | None, kept: list[tuple[str, str, bool]]
) -> Iterator[Leftover]:
    if journal is None:
        others = [one for one, other, _is_temporary in kept if other == run and one != path]
        if is_torn_journal(path) and not others:
            yield Leftover(
                path, "the beginning of a journal: its run was killed before it did anything", True
            )
        return
    if journal.is_open:
        # The paths in it are not shown: somebody may have edited it.
        back = undo_command(journal.command, path, [Placeholder("<DIR>")] if journal.leads_outside else ())
        what = (
            f"the undo of a run of {journal.command}"
            if journal.is_undo_begun
            else f"a run of {journal.command}"
        )
        where = f"stage {journal.reached + 1} of {len(journal.stages)}"
        yield Leftover(path, f"{what} ended in {where}; to go back: {back}", is_waste=False)
    elif journal.reached < 0 and not journal.is_undone:
        what = f"the journal of a run of {journal.command} that was ended before it changed anything"
        yield Leftover(path, what, is_waste=journal.run is not None)


def _judge_temporary(path: str, has_journal: bool) -> Leftover:
    if has_journal:
        return Leftover(path, "a temporary file of a run that was killed", is_waste=True)
    what = "a temporary file of a run whose journal is not here; name its --backup-dir, if it had one"
    return Leftover(path, what, is_waste=False)
