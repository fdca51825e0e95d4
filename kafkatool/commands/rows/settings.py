"""The settings of a topic as rows and sentences: every value and its source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.values import Row, human_duration, iso_time
from kafkatool.engine.batches.row_fields import flag, text, word

if TYPE_CHECKING:
    from kafkatool.engine.cluster.effective_settings import Setting
    from kafkatool.engine.cluster.metadata_end import MetadataEnd


SETTINGS = RowTable(
    "setting",
    "retention",
    "A setting that a topic goes by; of compact also those of the broker's cleaner.",
    text("topic", "the topic"),
    text("name", "Kafka's name of it"),
    text("value", "its value, as Kafka writes it", "text"),
    word(
        "origin",
        "--set, --config, topic, broker, cluster (set while it ran, by the metadata), "
        "server.properties, default",
    ),
    text("source", "the file and the name there; null where the origin says all"),
    flag(
        "is_certain",
        "false for what something not read here may have changed: a default, or, where the "
        "metadata ended before the broker did, everything but --set and --config",
    ),
)


def setting_row(topic: str | None, setting: Setting) -> Row:
    return SETTINGS.row(setting, topic=topic)


def settings_sentence(topic: str | None, settings: Iterable[Setting]) -> str:
    """List the values and the source of each."""
    words = []
    for setting in settings:
        source = f", {setting.source}" if setting.source else ""
        words.append(f"{setting.name}={setting.text} ({setting.origin}{source})")
    return f"{topic}: {', '.join(words)}"


def early_end_sentence(end: MetadataEnd, topics: Iterable[str | None]) -> str:
    """Say why settings from the metadata are not to be trusted, and what is used instead."""
    names = sorted({topic or "?" for topic in topics})
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    late = human_duration(end.file_ms - end.last_ms)
    return (
        f"the metadata on this disk ends at {iso_time(end.last_ms)}, {late} before {end.file} was written "
        f"(or copied, without its time): settings of {some} may have been changed since; --apply goes only "
        "by --set, or --config with a topic's settings"
    )
