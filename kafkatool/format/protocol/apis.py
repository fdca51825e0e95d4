"""The table of what is spoken: every API with its number, versions and layouts.

The bounds serve all clients we know: 0 is within reach of librdkafka's older releases for all group APIs,
Produce and OffsetFetch are listed because librdkafka breaks without, Metadata ends at 8 and Fetch at 11 so
that neither leader epochs nor topic ids come into play.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module

from kafkatool.format.release import NEWEST
from kafkatool.format.schema.layout import Layout, Tree, value_layout
from kafkatool.format.schema.notation import Message, Versions, parse_messages

_MODULES = (
    *("produce", "fetch", "list_offsets", "metadata", "offset_commit", "offset_fetch", "find_coordinator"),
    *("join_group", "heartbeat", "leave_group", "sync_group", "describe_groups", "list_groups"),
    *("sasl_handshake", "api_versions", "describe_configs", "sasl_authenticate", "describe_cluster"),
)


@dataclass(frozen=True, slots=True)
class Api:
    """One API; `name` is that of its module, and of the method that answers it."""

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


def _api(name: str) -> Api:
    request, response = parse_messages(import_module(f"{__package__}.{name}").TABLE)
    return Api(request.api_key, name, request.valid(NEWEST), request, response)


APIS = {api.key: api for api in map(_api, _MODULES)}
BY_NAME = {api.name: api for api in APIS.values()}

API_VERSIONS = BY_NAME["api_versions"]
SASL_HANDSHAKE = BY_NAME["sasl_handshake"]
SASL_AUTHENTICATE = BY_NAME["sasl_authenticate"]
BEFORE_AUTHENTICATION = frozenset({API_VERSIONS.key, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})
ONLY_WITH_SASL = frozenset({SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})


def api_versions_answer(keys: Iterable[int]) -> Tree:
    """What is spoken, by number."""
    rows: list[Tree] = [
        {"apiKey": key, "minVersion": APIS[key].versions.low, "maxVersion": APIS[key].versions.high}
        for key in sorted(keys)
    ]
    return {"apiKeys": rows}
