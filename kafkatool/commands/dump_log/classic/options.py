"""The options of a classic dump, including those that other flags imply."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkatool.engine.files.source import Guest
from kafkatool.format.java_text import INT_MAX
from kafkatool.format.record import DEFAULT_MAX_INFLATED
from kafkatool.format.release import NEWEST, Release
from kafkatool.format.schema import Decoder

DEFAULT_MAX_MESSAGE_SIZE = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ClassicOptions:
    """The flags of kafka-dump-log. Any decoder implies print_data_log, and that implies deep_iteration."""

    release: Release = NEWEST
    print_data_log: bool = False
    deep_iteration: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE
    max_bytes: int = INT_MAX
    skip_record_metadata: bool = False
    decoder: Decoder | None = None
    key_decoder: str | None = None
    """The class named by --key-decoder-class; None if the flag was not given."""
    value_decoder: str | None = None
    redact: bool = False
    max_batch_size: int = DEFAULT_MAX_INFLATED
    max_inflated: int = DEFAULT_MAX_INFLATED
    guest: Guest = field(default_factory=Guest)

    def __post_init__(self) -> None:
        decodes = (self.decoder, self.key_decoder, self.value_decoder)
        prints = self.print_data_log or any(choice is not None for choice in decodes)
        object.__setattr__(self, "print_data_log", prints)
        object.__setattr__(self, "deep_iteration", self.deep_iteration or prints)
