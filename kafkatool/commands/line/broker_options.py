"""What a broker uses but a disk may not show: options, and the settings that come from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import ConfigOpt, KafkaVersionOpt

if TYPE_CHECKING:
    from kafkatool.engine.cluster.settings_request import SettingsRequest


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Settings, clock, high watermark and Kafka version."""

    config: ConfigOpt = None
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="Decide as of this time: epoch ms, ISO 8601, now+3d. By default now.",
        ),
    ] = None
    high_watermark: Annotated[
        str,
        typer.Option(
            "--high-watermark",
            metavar="checkpoint|end|N",
            help="High watermark to assume: the checkpoint's (or the log end, with a note, if there is "
            "none), the log end, or an offset.",
        ),
    ] = "checkpoint"
    kafka_version: KafkaVersionOpt = None

    def moment(self, now_ms: int) -> int:
        from kafkatool.commands.line.arguments import parse_time

        return now_ms if self.at is None else parse_time(self.at, now_ms)

    def watermark(self) -> tuple[int | None, bool]:
        """Return the number that was given, or None; and whether the end of the log is to be used."""
        from kafkatool.commands.line.arguments import parse_high_watermark

        wanted = parse_high_watermark(self.high_watermark)
        return (wanted, False) if isinstance(wanted, int) else (None, wanted == "end")

    def settings(self, named: Sequence[str], given: Sequence[str] | None = None) -> SettingsRequest:
        """Return where settings come from, including what was named and the values of --set."""
        from kafkatool.engine.cluster.settings_request import SettingsRequest

        return SettingsRequest(named, given or (), self.config, self.kafka_version)
