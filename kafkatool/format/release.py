"""The Kafka releases whose texts and layouts we distinguish."""

from __future__ import annotations

from enum import IntEnum

from kafkatool.errors import unknown_word


class Release(IntEnum):
    """A feature release; ordered, so `release >= Release.V4_1` works."""

    V3_9 = 309
    V4_0 = 400
    V4_1 = 401
    V4_2 = 402
    V4_3 = 403

    @property
    def label(self) -> str:
        return f"{self // 100}.{self % 100}"

    @classmethod
    def parse(cls, text: str) -> Release:
        """Read `4.3`, or a patch release such as `4.3.1`, as its feature release."""
        wanted = ".".join(text.split(".")[:2])
        for release in cls:
            if release.label == wanted:
                return release
        raise unknown_word("release", text, [release.label for release in cls])


NEWEST = Release.V4_3
