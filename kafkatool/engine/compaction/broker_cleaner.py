"""What the cleaner of a broker goes by, besides the topic's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkatool.engine.cluster.effective_settings import Setting, TopicSettings
from kafkatool.engine.compaction.offset_map import map_capacity, needed_buffer

OF_BROKERS = tuple(
    f"log.cleaner.{name}" for name in ("enable", "dedupe.buffer.size", "threads", "io.buffer.load.factor")
)


class Cleaner(NamedTuple):
    """The cleaner of one broker, as it meets one topic."""

    min_ratio: float
    is_on: bool
    buffer_size: int
    threads: int
    load_factor: float

    @classmethod
    def of(cls, settings: TopicSettings, brokers: Mapping[str, Setting]) -> Cleaner:
        is_on, size, threads, factor = (brokers[name].value for name in OF_BROKERS)
        ratio = float(str(settings.config.values["min.cleanable.dirty.ratio"]))
        count = int(str(threads))
        return cls(ratio, is_on is True and count > 0, int(str(size)), max(1, count), float(str(factor)))

    @property
    def capacity(self) -> int:
        """Keys in the map of one thread."""
        return map_capacity(self.buffer_size, self.threads, self.load_factor)

    def needed(self, keys: int) -> int | None:
        """The buffer that takes so many keys in one pass; None: none is large enough."""
        return needed_buffer(keys, self.threads, self.load_factor)
