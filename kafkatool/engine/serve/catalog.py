"""The topics and partitions to serve: what is in the log directories, less what was not asked for.

Names that clients send are only looked up here: no path is ever made of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kafkatool.engine.cluster.view import ClusterView, read_cluster_view
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState
from kafkatool.engine.directory.selection import Home, Selection
from kafkatool.engine.serve.partitions import ServedPartition, Serving
from kafkatool.errors import UsageError
from kafkatool.format.names import topic_problem
from kafkatool.format.schema import decoder_for_topic

INCLUDABLE = ("deleted", "stray", "future", "internal")
MOST_PARTITIONS = 100_000  # of one topic, placeholders too
_STATES = {
    PartitionState.DELETED: "deleted",
    PartitionState.STRAY: "stray",
    PartitionState.FUTURE: "future",
    PartitionState.METADATA: "internal",
}


@dataclass(frozen=True, slots=True)
class CatalogChoice:
    """What is served besides ordinary topics, and under which names."""

    includes: frozenset[str] = frozenset()
    renames: dict[str, str] = field(default_factory=dict)
    """The name or path of a partition directory -> topic."""

    def topic_of(self, partition: Partition) -> str | None:
        path = os.path.normpath(partition.path)
        return self.renames.get(partition.directory) or self.renames.get(path)

    def leaves_out(self, partition: Partition) -> str | None:
        """Return the --include word that it lacks; None if it is served."""
        word = _STATES.get(partition.state)
        if word is None and is_internal(partition.topic or ""):
            word = "internal"
        return None if word is None or word in self.includes else word


@dataclass(slots=True)
class Topic:
    """One topic; a partition's index in the list is its number."""

    name: str
    partitions: list[ServedPartition]
    is_internal: bool


@dataclass(slots=True)
class Catalog:
    """What is served, and the notes to show about it."""

    topics: dict[str, Topic] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    """--include word -> number of partitions left out for lack of it."""
    cluster: ClusterView = field(default_factory=ClusterView)
    offsets: list[tuple[Partition, LogDir]] = field(default_factory=list)
    """The partitions of __consumer_offsets, whether served or not."""

    def get(self, topic: str, number: int) -> ServedPartition | None:
        found = self.topics.get(topic)
        return found.partitions[number] if found and 0 <= number < len(found.partitions) else None

    def partitions(self) -> Iterator[ServedPartition]:
        """Yield the partitions that really exist."""
        for topic in self.topics.values():
            yield from (one for one in topic.partitions if one.partition is not None)


def is_internal(topic: str) -> bool:
    return decoder_for_topic(topic) is not None


def make_catalog(
    found: Selection, choice: CatalogChoice, how: Serving, known: Catalog | None = None
) -> Catalog:
    """Build the catalog of what was found and chosen; reuse partitions that `known` has already."""
    catalog = Catalog()
    metadata = [one for home in found.homes for one in home.log_dir.metadata]
    catalog.cluster = read_cluster_view(metadata, how.guest)
    before = {
        one.partition.path: one for one in (known.partitions() if known else ()) if one.partition is not None
    }
    placed: dict[str, dict[int, ServedPartition]] = {}
    unused = set(choice.renames)
    for home, partition in _live_first(found.homes):
        unused -= {partition.directory, os.path.normpath(partition.path)}
        served = _place(catalog, home, partition, choice, how, placed)
        if served is not None:
            old = before.get(partition.path)
            placed[served.topic][served.number] = served if old is None else old
    if unused:
        raise UsageError(f"--rename {min(unused)}: there is no such partition directory")
    for topic, numbers in sorted(placed.items()):
        catalog.topics[topic] = _topic(catalog, topic, numbers, how)
    return catalog


def _live_first(homes: Iterable[Home]) -> list[tuple[Home, Partition]]:
    """Sort active partitions first: a broker would serve them if others have the same number."""
    chosen = [
        (home, partition)
        for home in homes
        for partition in (
            home.log_dir.partitions if home.is_whole else [named.partition for named in home.partitions]
        )
    ]
    return sorted(chosen, key=lambda pair: pair[1].state is not PartitionState.ACTIVE)


def _place(
    catalog: Catalog,
    home: Home,
    partition: Partition,
    choice: CatalogChoice,
    how: Serving,
    placed: dict[str, dict[int, ServedPartition]],
) -> ServedPartition | None:
    if partition.topic == "__consumer_offsets" and partition.state is PartitionState.ACTIVE:
        catalog.offsets.append((partition, home.log_dir))
    renamed = choice.topic_of(partition)
    topic, number = renamed or partition.topic, partition.partition
    if topic is None or number is None:
        catalog.notes.append(f"{partition.path}: its name is not that of a partition, so it is not served")
        return None
    word = choice.leaves_out(partition) if renamed is None and home.is_whole else None
    if word is not None:
        catalog.left_out[word] = catalog.left_out.get(word, 0) + 1
        return None
    problem = topic_problem(topic)
    if problem is not None or not 0 <= number < MOST_PARTITIONS:
        why = problem or f"partition {number} is beyond {MOST_PARTITIONS}"
        catalog.notes.append(f"{partition.path}: not served: {why}")
        return None
    numbers = placed.setdefault(topic, {})
    if number in numbers:
        other = numbers[number].partition
        catalog.notes.append(
            f"{partition.path}: not served, {other.path if other else topic} is {topic}-{number} already; "
            f"--rename {partition.directory}=TOPIC serves it too"
        )
        return None
    return ServedPartition(topic, number, partition, home.log_dir, how)


def _topic(catalog: Catalog, name: str, numbers: dict[int, ServedPartition], how: Serving) -> Topic:
    """Fill in missing numbers with empty partitions: clients cannot handle gaps."""
    count = max(max(numbers) + 1, _count_by_metadata(catalog.cluster, name))
    missing = count - len(numbers)
    if missing:
        catalog.notes.append(f"{name}: {missing} of {count} partitions are not here and shown as empty")
    partitions = [
        numbers.get(number) or ServedPartition(name, number, None, None, how) for number in range(count)
    ]
    return Topic(name, partitions, is_internal(name))


def _count_by_metadata(cluster: ClusterView, topic: str) -> int:
    ids = set(cluster.ids_of(topic))
    count = max((number + 1 for topic_id, number in cluster.partitions if topic_id in ids), default=0)
    return count if count <= MOST_PARTITIONS else 0
