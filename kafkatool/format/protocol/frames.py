"""Split a stream of bytes into requests, and assemble responses in pieces to send.

frame     int32 size, then that many bytes
request   int16 api key, int16 version, int32 correlation id, string? client id, [tags], body
response  int32 correlation id, [tags], body

Only flexible versions have tags; the client id keeps its old form even then. The response to ApiVersions
never has tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import cast

from kafkatool.errors import FormatError
from kafkatool.format.primitives import write_int16, write_int32
from kafkatool.format.protocol.apis import API_VERSIONS, APIS, Api
from kafkatool.format.protocol.errors import ErrorCode
from kafkatool.format.schema.layout import Tree
from kafkatool.format.schema.measuring import check_tags, measure_struct
from kafkatool.format.schema.reading import UNDERFLOW, Unreadable, read_int16, read_struct, read_uvarint
from kafkatool.format.schema.writing import (
    Claim,
    Piece,
    claim_nothing,
    piece_size,
    write_pieces,
    write_struct,
)

_HEAD = Struct(">hhi")  # api key, version, correlation id
_SIZE = 4
_HARMLESS = 256  # a frame this small cannot become anything large
_TLS_HANDSHAKE = b"\x16\x03"
_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI")


class BadFrame(FormatError):
    """The stream holds no frame of Kafka's, or one that is too large: nothing after it can be read."""


class UnknownApi(FormatError):
    """A request for an unsupported API, or an unsupported version."""


class Frames:
    """Split incoming bytes into frames. Holds one incomplete frame, and what came after a complete one."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = bytearray()

    def feed(self, data: bytes | memoryview) -> None:
        self._held += data

    @property
    def wanted(self) -> int:
        """Bytes missing from the next frame, as far as known; 0 if it is complete."""
        if len(self._held) < _SIZE:
            return _SIZE - len(self._held)
        return max(0, _SIZE + int.from_bytes(self._held[:_SIZE], "big") - len(self._held))

    @property
    def held(self) -> int:
        """Number of bytes held."""
        return len(self._held)

    @property
    def is_empty(self) -> bool:
        return not self._held

    def next(self) -> bytes | None:
        """Return the next whole frame without its size; None if it is incomplete. Raises BadFrame."""
        if len(self._held) < _SIZE:
            return None
        size = int.from_bytes(self._held[:_SIZE], "big", signed=True)
        if not 0 <= size <= self.limit:
            found = _other_protocol(bytes(self._held[:_SIZE])) or f"{size}"
            raise BadFrame("frame size", 0, expected=f"0 to {self.limit}", found=found)
        if len(self._held) < _SIZE + size:
            return None
        frame = bytes(memoryview(self._held)[_SIZE : _SIZE + size])
        del self._held[: _SIZE + size]
        return frame


def _other_protocol(front: bytes) -> str | None:
    """Recognize another protocol by what it sends where Kafka's clients send a size."""
    if front.startswith(_TLS_HANDSHAKE):
        return "a TLS handshake on a plain port"
    return "an HTTP request" if front in _HTTP else None


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `body` is empty where the version is unknown, which only ApiVersions allows."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: Tree

    @property
    def is_spoken(self) -> bool:
        return self.api.speaks(self.version)


def read_request(frame: bytes, claim: Claim = claim_nothing) -> Request:
    """Decode one frame; raise UnknownApi or another FormatError. Bytes after the body are ignored.

    `claim` is called with the memory that decoding takes, plus what handlers need to sort it, beforehand.
    """
    if len(frame) < _HEAD.size:
        raise Unreadable(0, UNDERFLOW)
    key, version, correlation_id = _HEAD.unpack_from(frame)
    api = APIS.get(key)
    if api is None or not (api.speaks(version) or api is API_VERSIONS):
        what = f"{key}" if api is None else f"{key} ({api.name}) in version {version}"
        raise UnknownApi("api key", 0, expected="one that is listed", found=what)
    if not api.speaks(version):
        return Request(api, version, correlation_id, None, {})
    client_id, at = _read_client_id(frame, _HEAD.size)
    if api.is_flexible(version):
        at = _skip_tags(frame, at)
    layout = api.request_layout(version)
    if len(frame) > _HARMLESS:
        size, _end = measure_struct(layout, frame, at)
        claim(size + size // 2 + 4 * len(client_id or ""))
    body, _end = read_struct(layout, frame, at)
    return Request(api, version, correlation_id, client_id, body)


def _read_client_id(frame: bytes, at: int) -> tuple[str | None, int]:
    size, at = read_int16(frame, at)
    if size < 0:
        return None, at
    if size > len(frame) - at:
        raise Unreadable(at, UNDERFLOW)
    return frame[at : at + size].decode(errors="replace"), at + size


def _skip_tags(frame: bytes, at: int) -> int:
    count, at = read_uvarint(frame, at)
    check_tags(count, at)
    for _ in range(count):
        _tag, at = read_uvarint(frame, at)
        size, at = read_uvarint(frame, at)
        if not 0 <= size <= len(frame) - at:
            raise Unreadable(at, UNDERFLOW)
        at += size
    return at


def write_response(request: Request, body: Tree, claim: Claim = claim_nothing) -> list[Piece]:
    """Return the response as pieces: adjacent bytes form one piece, slices are passed on as they are."""
    if not request.is_spoken:
        return [_unsupported(request)]
    layout = request.api.response_layout(request.version)
    head = bytes(_SIZE) + write_int32(request.correlation_id)
    if request.api is not API_VERSIONS and request.api.is_flexible(request.version):
        head += b"\0"
    pieces = write_pieces(layout, body, head, claim)
    size = sum(map(piece_size, pieces)) - _SIZE
    cast(bytearray, pieces[0])[:_SIZE] = write_int32(size)
    return pieces


def framed(data: bytes) -> bytes:
    """Return the data with its size in front."""
    return write_int32(len(data)) + data


def _unsupported(request: Request) -> bytes:
    """Answer ApiVersions in an unknown version: in layout 0, which names the supported ones."""
    row: Tree = {
        "apiKey": API_VERSIONS.key,
        "minVersion": API_VERSIONS.versions.low,
        "maxVersion": API_VERSIONS.versions.high,
    }
    body: Tree = {"errorCode": ErrorCode.UNSUPPORTED_VERSION, "apiKeys": [row]}
    answer = write_int32(request.correlation_id) + write_struct(API_VERSIONS.response_layout(0), body)
    return framed(answer)


# --- the client's side, for tests and measurements ----------------------------------------------------


def write_request(api: Api, version: int, correlation_id: int, client_id: str | None, body: Tree) -> bytes:
    """Return a whole frame as a client would send it."""
    name = write_int16(-1) if client_id is None else write_int16(len(client_id)) + client_id.encode()
    head = _HEAD.pack(api.key, version, correlation_id) + name
    if api.is_flexible(version):
        head += b"\0"
    frame = head + write_struct(api.request_layout(version), body)
    return write_int32(len(frame)) + frame


def read_response(api: Api, version: int, frame: bytes) -> tuple[int, Tree]:
    """Return (correlation id, body) of a response; raise FormatError where bytes are missing or left over."""
    at = 4
    if api is not API_VERSIONS and api.is_flexible(version):
        at = _skip_tags(frame, at)
    body, end = read_struct(api.response_layout(version), frame, at)
    if end != len(frame):
        raise FormatError("response", end, expected="its end", found=f"{len(frame) - end} bytes more")
    return int.from_bytes(frame[:4], "big"), body
