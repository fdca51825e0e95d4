"""`kafkatool set-aside`: remove a partition from a stopped broker, so that it fetches the partition again."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import CommonOptions, FormatOpt, PathOptions, RawOpt, epilog
from kafkatool.commands.line.plan_options import ChangeOptions
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format
from kafkatool.errors import ExitCode, Refused, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkatool.engine.cluster.view import ClusterView
    from kafkatool.engine.directory.log_dir import Partition
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.repair.set_aside import Moved
    from kafkatool.format.names import TopicPartition

EPILOG = epilog(
    {
        "kafka-topics.sh --bootstrap-server <HOST:PORT> --describe > cluster.txt": (
            "first: describe the cluster"
        ),
        "kafkatool set-aside --describe cluster.txt --move-to /aside DIR/orders-0": (
            "then: the plan, or why it is refused"
        ),
        "kafkatool set-aside --metadata /controller --move-to /aside --apply DIR/t-0": (
            "apply it, judged by a controller's disk"
        ),
        "kafkatool set-aside --undo <JOURNAL> --backup-dir /aside --apply": "undo it",
    },
    5,
)


def set_aside(
    where: PathOptions,
    plan: ChangeOptions,
    *,
    move_to: Annotated[
        str | None,
        typer.Option(
            "--move-to",
            metavar="DIR",
            help="Directory to move the partitions to, on any volume.",
        ),
    ] = None,
    describe: Annotated[
        str | None,
        typer.Option(
            "--describe",
            metavar="FILE",
            help="Output of kafka-topics.sh --describe, taken while the broker is down; - is standard input.",
        ),
    ] = None,
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            metavar="PATH",
            help="Instead of --describe: the metadata log of a controller that kept running without the "
            "broker.",
        ),
    ] = None,
    second_copy: Annotated[
        str | None,
        typer.Option(
            "--second-copy",
            metavar="DIR",
            help="Another copy of the partition, in a log directory of the same broker. It stays and must "
            "have every batch; the rest of the cluster is not considered.",
        ),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Proceed even if acknowledged records may be lost."),
    ] = False,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    common: CommonOptions,
) -> None:
    """Move partitions out of the log directory of a stopped broker, so that it fetches them again.

    The mark of a clean shutdown is removed too: with it the broker would count as complete and could be
    elected with an empty log. That changes how the cluster sees all partitions of the broker, so all of them
    are judged, from a description of the cluster taken after the broker stopped: the output of
    kafka-topics.sh --describe, or the disk of a controller. The command refuses if acknowledged records could
    be lost; --accept-loss proceeds after saying what is at stake. The metadata of the cluster is never set
    aside.

    A broker that has a partition twice does not start. Name the copy that stays with --second-copy: the other
    one is moved if the copy that stays has every batch of it.
    """
    speak = common.talk()
    if plan.undo_instead(where, "set-aside", speak, fmt, move_to):
        return
    if move_to is None:
        raise UsageError("set-aside needs --move-to: the directory that the partitions go to")
    work = _SetAsideRun(common.guest(), speak, plan, move_to, accept_loss=accept_loss)
    work.find(where)
    if second_copy is not None:
        if describe is not None or metadata is not None:
            raise UsageError("--second-copy excludes --describe and --metadata")
        work.judge_second_copy(second_copy)
    else:
        work.judge(describe, metadata)
    work.conclude(fmt, raw)
    raise typer.Exit(ExitCode.OK)


class _SetAsideRun:
    def __init__(
        self, guest: Guest, speak: Talk, plan: ChangeOptions, move_to: str, *, accept_loss: bool
    ) -> None:
        from kafkatool.commands.rows.plans import now_ms

        self._guest, self._talk, self._plan = guest, speak, plan
        self._move_to = move_to
        self._accept_loss = accept_loss
        self._now_ms = now_ms()
        self._moved: Sequence[Moved] = ()
        self._has_picture = False
        self._is_fetched = True
        """Whether the broker fetches from others what is set aside."""

    def find(self, where: PathOptions) -> None:
        from kafkatool.engine.repair.set_aside import find_moved, node_of

        self._moved = find_moved([target.path for target in where.directories().targets], self._guest)
        if not self._moved:
            raise UsageError("set-aside needs the directory of a partition")
        self._node = node_of(self._moved)

    def judge(self, describe: str | None, metadata: str | None) -> None:
        """Suggest how to avoid setting aside; raise Refused if records could be lost."""
        from kafkatool.engine.repair.set_aside import objections_to_picture
        from kafkatool.engine.repair.standing import objections_to_moving

        if describe is None and metadata is None:
            doubts = [_no_picture()]
        else:
            view = self._picture(describe, metadata)
            self._has_picture = True
            current = {one.key for one in self._moved if one.is_current}
            self._say_the_other_way(view, current)
            doubts = list(objections_to_picture(view, self._moved))
            doubts += [one.sentence for one in objections_to_moving(view, self._node, current)]
        self._weigh(doubts)

    def judge_second_copy(self, path: str) -> None:
        """Raise Refused unless another copy on the same broker has everything."""
        from kafkatool.engine.repair.second_copy import objections_to_second_copy
        from kafkatool.engine.repair.set_aside import find_moved

        if len(self._moved) > 1:
            raise UsageError("--second-copy is about one partition")
        kept = find_moved([path], self._guest)[0]
        self._weigh(list(objections_to_second_copy(self._moved[0], kept, self._guest)))
        self._is_fetched = False

    def _picture(self, describe: str | None, metadata: str | None) -> ClusterView:
        from kafkatool.engine.cluster.view import read_cluster_view
        from kafkatool.engine.repair.describe_text import read_description

        if describe is not None and metadata is not None:
            raise UsageError("--describe and --metadata exclude each other")
        if describe == "-":
            view = read_description(sys.stdin, self._now_ms)
        elif describe is not None:
            with open(describe, encoding="utf-8", errors="replace") as file:
                view = read_description(file, int(os.fstat(file.fileno()).st_mtime * 1000))
        else:
            assert metadata is not None
            view = read_cluster_view(_metadata_partitions(metadata, self._guest), self._guest)
        if not view.is_known or not view.is_complete:
            raise Refused(
                f"{describe or metadata}: does not describe all partitions, so nothing can be judged"
            )
        return view

    def _say_the_other_way(self, view: ClusterView, current: Collection[TopicPartition]) -> None:
        """Suggest reassignment: a broker that can run can give its partitions away and fetch them back."""
        from kafkatool.engine.advice.table import Advice
        from kafkatool.engine.repair.reassigning import reassignments

        ways = reassignments(view, self._node, current)
        if ways is not None:
            self._talk.note("if the broker can run, better let it: start it, give the partitions away,")
            self._talk.note(f"    {Advice.REASSIGN(plan=ways.away)}")
            self._talk.note("and when nothing is under way any more, bring them back:")
            self._talk.note(f"    {Advice.REASSIGN(plan=ways.back)}")

    def _weigh(self, doubts: Sequence[str]) -> None:
        """Report doubts and what is at stake; raise Refused unless the loss is accepted."""
        from kafkatool.engine.repair.set_aside import stake_of

        for doubt in doubts:
            self._talk.warn(doubt)
        if not doubts:
            return
        for one in self._moved:
            stake = stake_of(one, self._guest)
            self._talk.warn(f"{one.partition.path}: {stake}, high watermark {self._watermark(one)}")
        if not self._accept_loss:
            raise Refused("acknowledged records could be lost; --accept-loss proceeds anyway")

    def _watermark(self, one: Moved) -> object:
        return one.log_dir.high_watermarks.get(one.key, "unknown")

    def conclude(self, fmt: Format, raw: bool) -> None:
        from kafkatool.commands.rows.plans import STEP_COLUMNS, conclude, step_row, write_row
        from kafkatool.engine.repair.set_aside import plans_to_set_aside

        how = self._plan.applying(self._now_ms)
        plans = plans_to_set_aside(self._moved, self._move_to, self._guest, is_applied=self._plan.apply)
        with rows(fmt, STEP_COLUMNS, raw=raw) as out:
            for plan in plans:
                for step in plan.steps:
                    size = os.path.getsize(step.path) if os.path.isfile(step.path) else None
                    write_row(out, step_row(step, size), fmt)
                # A description of the cluster is more reliable than this broker's own metadata.
                warns, apply = not self._has_picture, self._plan.apply
                conclude(plan, how, self._talk, out, fmt, do_apply=apply, warns_of_unmarking=warns)
        if self._plan.apply and self._is_fetched:
            self._say_what_to_wait_for()

    def _say_what_to_wait_for(self) -> None:
        from kafkatool.engine.advice.table import Advice

        for topic in sorted({one.key[0] for one in self._moved if one.is_current}):
            self._talk.note(
                f"start the broker, and stop no other until node {self._node} is back in the Isr of {topic}: "
                f"{Advice.DESCRIBE_TOPIC(topic=topic)}"
            )


def _no_picture() -> str:
    from kafkatool.engine.advice.table import Advice

    return (
        "how the rest of the cluster stands is not known; with the broker down, run "
        f"{Advice.DESCRIBE()} and name the file with --describe, or name a controller's disk with --metadata"
    )


def _metadata_partitions(path: str, guest: Guest) -> list[Partition]:
    from kafkatool.engine.directory.log_dir import PartitionState, read_log_dir, read_partition

    found = [read_partition(path, [], guest)]
    if found[0].state is not PartitionState.METADATA:
        found = read_log_dir(path, guest).partitions
    return [one for one in found if one.state is PartitionState.METADATA]
