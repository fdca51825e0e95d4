"""What a topic goes by, as rows and sentences: every value with where it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkatool.commands.screen.values import Row, human_duration, iso_time

if TYPE_CHECKING:
    from kafkatool.engine.cluster.effective_settings import Setting
    from kafkatool.engine.cluster.metadata_end import MetadataEnd


def setting_row(topic: str | None, setting: Setting) -> Row:
    return {
        "kind": "setting",
        "topic": topic,
        "name": setting.name,
        "value": setting.text,
        "origin": str(setting.origin),
        "source": setting.source,
        "is_certain": setting.is_certain,
    }


def settings_sentence(topic: str | None, settings: Iterable[Setting]) -> str:
    """The values, and where each of them comes from."""
    words = []
    for setting in settings:
        source = f", {setting.source}" if setting.source else ""
        words.append(f"{setting.name}={setting.text} ({setting.origin}{source})")
    return f"{topic}: {', '.join(words)}"


def early_end_sentence(end: MetadataEnd, topics: Iterable[str | None]) -> str:
    """Why settings by the metadata are not to be trusted, and what decides instead."""
    names = sorted({topic or "?" for topic in topics})
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    late = human_duration(end.file_ms - end.last_ms)
    return (
        f"the metadata on this disk ends at {iso_time(end.last_ms)}, {late} before {end.file} was written "
        f"(or copied, without its time): settings of {some} may have been changed since; --apply goes only "
        "by --set, or --config with a topic's settings"
    )
