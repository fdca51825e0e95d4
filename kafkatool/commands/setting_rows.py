"""What a topic goes by, as rows and sentences: every value with where it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkatool.commands.render import Row

if TYPE_CHECKING:
    from kafkatool.engine.settings import Setting


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
