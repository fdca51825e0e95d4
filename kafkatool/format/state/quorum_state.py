"""`quorum-state` of `__cluster_metadata-0`: what this node knows about controller elections.

    {"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

    data_version 0  also clusterId (always ""), appliedOffset (always 0), and currentVoters, which is null or
                    [{"voterId":1}]; no votedDirectoryId
    -1              none, for every id

Only the first JSON value of the first line is read, and fields unknown to a version are ignored. A
data_version that is not a number counts as 0, and of a large one only the lowest 16 bits count.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kafkatool.errors import FormatError
from kafkatool.format.java_text import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, utf8_lines
from kafkatool.format.primitives import Buffer
from kafkatool.format.uuids import parse_uuid

HIGHEST_VERSION = 1


class QuorumState(NamedTuple):
    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: str | None
    current_voters: tuple[int, ...] | None


def read_quorum_state(buf: Buffer) -> QuorumState:
    """Decode the file; raise FormatError unless it is a JSON object with the fields its version needs."""
    try:
        line = next(utf8_lines(buf, "quorum-state"), (0, ""))[1]
        value, _end = json.JSONDecoder().raw_decode(line.lstrip())
    except (ValueError, RecursionError) as error:
        raise FormatError("quorum-state", 0, expected="JSON", found=str(error)) from None
    if not isinstance(value, dict):
        raise FormatError("quorum-state", 0, expected="a JSON object", found=type(value).__name__)
    version = _version(value)
    if not 0 <= version <= HIGHEST_VERSION:
        raise FormatError("quorum-state data_version", 0, expected=f"0 to {HIGHEST_VERSION}", found=version)
    return QuorumState(
        version,
        _int(value, "leaderId"),
        _int(value, "leaderEpoch"),
        _int(value, "votedId"),
        _directory_id(value) if version >= 1 else None,
        _of_version_0(value) if version == 0 else None,
    )


def write_quorum_state(state: QuorumState) -> bytes:
    """Encode as a broker does, in the field order of the state's version."""
    election: dict[str, object] = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
    }
    if state.data_version == 0:
        voters = (
            None if state.current_voters is None else [{"voterId": voter} for voter in state.current_voters]
        )
        fields = {"clusterId": "", **election, "appliedOffset": 0, "currentVoters": voters}
    else:
        fields = {**election, "votedDirectoryId": state.voted_directory_id}
    return json.dumps({**fields, "data_version": state.data_version}, separators=(",", ":")).encode()


def _version(value: dict[str, Any]) -> int:
    if "data_version" not in value:
        raise FormatError("quorum-state data_version", 0, expected="a number", found="nothing")
    found = value["data_version"]
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0
    return ((int(found) + 0x8000) & 0xFFFF) - 0x8000


def _int(value: dict[str, Any], key: str, smallest: int = INT_MIN, largest: int = INT_MAX) -> int:
    found = value.get(key)
    if isinstance(found, int) and not isinstance(found, bool) and smallest <= found <= largest:
        return found
    bits = 32 if largest == INT_MAX else 64
    raise FormatError(f"quorum-state {key}", 0, expected=f"a {bits}-bit number", found=repr(found))


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key)
    if isinstance(found, str):
        return found
    raise FormatError(f"quorum-state {key}", 0, expected="text", found=repr(found))


def _directory_id(value: dict[str, Any]) -> str:
    text = _text(value, "votedDirectoryId")
    if parse_uuid(text) is None:
        raise FormatError("quorum-state votedDirectoryId", 0, expected="a UUID in base64", found=repr(text))
    return text


def _of_version_0(value: dict[str, Any]) -> tuple[int, ...] | None:
    """Return the voters; the two unused fields must be present all the same."""
    _text(value, "clusterId")
    _int(value, "appliedOffset", LONG_MIN, LONG_MAX)
    return _voters(value)


def _voters(value: dict[str, Any]) -> tuple[int, ...] | None:
    voters = value.get("currentVoters", ())
    if voters is None:
        return None
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise FormatError("quorum-state currentVoters", 0, expected="a list of objects", found=repr(voters))
    return tuple(_int(voter, "voterId") for voter in voters)
