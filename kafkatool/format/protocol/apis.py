"""The supported APIs, each with its number, versions and layouts.

The bounds serve all clients we know: 0 is within reach of librdkafka's older releases for all group APIs,
Produce and OffsetFetch are listed because librdkafka breaks without them, and Metadata ends at 8 and Fetch at
11 to avoid leader epochs and topic ids. They are chosen where `tables` is written (`make schemas`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafkatool.format.protocol.tables import TABLE
from kafkatool.format.release import NEWEST
from kafkatool.format.schema.layout import Layout, Tree, value_layout
from kafkatool.format.schema.notation import Message, Versions, parse_messages

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Api:
    """One API; `name` is the name of the method that answers it."""

    key: int
    name: str
    versions: Versions
    request: Message
    response: Message

    def speaks(self, version: int) -> bool:
        return self.versions.low <= version <= self.versions.high

    def is_flexible(self, version: int) -> bool:
        first = self.request.first_flexible
        return first is not None and version >= first

    def request_layout(self, version: int) -> Layout:
        return value_layout(self.request, version)

    def response_layout(self, version: int) -> Layout:
        return value_layout(self.response, version)


def _apis() -> Iterator[Api]:
    messages = parse_messages(TABLE)
    for request, response in zip(messages[::2], messages[1::2], strict=True):
        name = _WORD.sub("_", request.name.removesuffix("Request")).lower()
        yield Api(request.api_key, name, request.valid(NEWEST), request, response)


APIS = {api.key: api for api in _apis()}
BY_NAME = {api.name: api for api in APIS.values()}

API_VERSIONS = BY_NAME["api_versions"]
SASL_HANDSHAKE = BY_NAME["sasl_handshake"]
SASL_AUTHENTICATE = BY_NAME["sasl_authenticate"]
BEFORE_AUTHENTICATION = frozenset({API_VERSIONS.key, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})
ONLY_WITH_SASL = frozenset({SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})


def api_versions_answer(keys: Iterable[int]) -> Tree:
    """Return the body that lists these APIs with their versions, ordered by number."""
    rows: list[Tree] = [
        {"apiKey": key, "minVersion": APIS[key].versions.low, "maxVersion": APIS[key].versions.high}
        for key in sorted(keys)
    ]
    return {"apiKeys": rows}
