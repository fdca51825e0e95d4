"""A broker's own log class and ours, side by side: the same calls, the same answers, the same files."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

from kafkatool.engine.broker import refusals
from kafkatool.engine.broker.refusals import LogRefusal
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.log.loading import LeftLog, open_log
from kafkatool.engine.log.partition_log import Log
from tests.kafka.java_client import JavaServant
from tests.logs import content

ERRORS: dict[type[LogRefusal], int] = {
    refusals.CorruptMessage: 2,
    refusals.MessageTooLarge: 10,
    refusals.RecordListTooLarge: 18,
    refusals.InvalidTimestamp: 32,
    refusals.OutOfOrderSequence: 45,
    refusals.InvalidProducerEpoch: 47,
    refusals.InvalidRecord: 87,
}
# What Kafka has no code for; its clients would be told "unknown".
NO_CODE = -1


class TwoLogs:
    """One log by a broker of the newest release, one by us; `with` closes both."""

    def __init__(self, servant: JavaServant, root: Path, name: str, settings: dict[str, str]) -> None:
        self.theirs = root / "theirs" / name
        self.ours = root / "ours" / name
        self.ours.parent.mkdir(parents=True, exist_ok=True)
        self.theirs.parent.mkdir(parents=True, exist_ok=True)
        self.servant = servant
        # Deleted files go at once, as ours do.
        self.settings = {"file.delete.delay.ms": "0", **settings}
        self.log: Log | None = None

    @property
    def directories(self) -> tuple[Path, Path]:
        return self.ours, self.theirs

    def prepare(self, make: Callable[[Path], object]) -> None:
        """Let both begin with the same files."""
        for directory in self.directories:
            make(directory)

    def open(self, now_ms: int, left: LeftLog | None = None) -> Log:
        left = left or LeftLog()
        self.servant.call(
            "open",
            directory=str(self.theirs),
            config=self.settings,
            now=now_ms,
            recoveryPoint=left.recovery_point,
            logStart=left.log_start_offset,
            clean=left.is_clean,
        )
        config = read_config(self.settings)
        self.log = open_log(Disk(), str(self.ours), config, now_ms=now_ms, left=left)
        return self.log

    def append(self, data: bytes, now_ms: int, epoch: int | None = None) -> int:
        """As leader of this epoch, or as a follower; the error code that both gave."""
        text = base64.b64encode(data).decode()
        theirs = self.servant.call("append", data=text, epoch=epoch, now=now_ms)
        ours = self._answer(data, now_ms, epoch)
        if theirs["error"] == NO_CODE:
            assert ours[0] != 0, theirs
        else:
            assert ours == (theirs["error"], theirs.get("last")), theirs
        return int(theirs["error"])

    def _answer(self, data: bytes, now_ms: int, epoch: int | None) -> tuple[int, int | None]:
        assert self.log is not None
        try:
            if epoch is None:
                done = self.log.append_as_follower(data, now_ms=now_ms)
            else:
                done = self.log.append_as_leader(data, leader_epoch=epoch, now_ms=now_ms)
        except LogRefusal as error:
            return ERRORS.get(type(error), NO_CODE), None
        assert done is not None
        return 0, done.last_offset

    def close(self) -> None:
        assert self.log is not None
        self.log.close()
        self.servant.call("close")

    def differences(self) -> list[str]:
        """The names of files that only one has, or that differ."""
        ours, theirs = content(self.ours), content(self.theirs)
        return [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
