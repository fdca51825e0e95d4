"""One client: its requests in order, each answered before the next is read."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kafkatool.engine.serve.access import Client, Principal
from kafkatool.engine.serve.answers import Answers
from kafkatool.engine.serve.budget import Budget, Share
from kafkatool.engine.serve.channels import Channel, ConnectionEnded
from kafkatool.engine.serve.sasl import Authentication, Login
from kafkatool.engine.serve.traffic import Traffic
from kafkatool.errors import KafkatoolError
from kafkatool.format.protocol.apis import BEFORE_AUTHENTICATION
from kafkatool.format.protocol.frames import Frames, Request, framed, read_request, write_response
from kafkatool.format.schema.writing import Piece, is_bytes, piece_size

READ_AT_ONCE = 64 << 10
LARGE_FRAME = 16 << 10
_SMALL_READ = 4 << 10


class NotAllowed(KafkatoolError):
    """A request that is not allowed yet."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on what one client may use."""

    frame_bytes: int = 4 << 20
    frame_bytes_before_login: int = 64 << 10
    connections: int = 2048
    connections_of_address: int = 1024
    first_byte_seconds: float = 10.0
    idle_seconds: float = 600.0
    frame_seconds: float = 30.0
    """From the first byte of a request to its last."""
    stall_seconds: float = 60.0
    """Without taking a byte of its answer."""


class Connection:
    """Serves one client until it is gone."""

    def __init__(
        self,
        channel: Channel,
        host: str,
        advertised: tuple[str, int],
        answers: Answers,
        authentication: Authentication,
        limits: ConnectionLimits,
        budget: Budget,
        traffic: Traffic,
    ) -> None:
        self._channel = channel
        self._host = host
        self._advertised = advertised
        self._answers = answers
        self._authentication = authentication
        self._limits = limits
        self._share = Share(budget)
        channel.try_claim = self._share.try_claim
        self._traffic = traffic
        self._login: Login | None = None
        self._principal: Principal | None = None
        self._frames = Frames(limits.frame_bytes)

    def run(self) -> None:
        """Serve requests until the client is gone.

        Raises KafkatoolError for what a client does wrong, ConnectionEnded or OSError once it is gone.
        """
        deadline = time.monotonic() + self._limits.first_byte_seconds
        self._channel.start(deadline)
        self._principal = self._authentication.without_login(self._channel.peer_name)
        if self._principal is None:
            self._login = self._authentication.login()
            self._frames.limit = self._limits.frame_bytes_before_login
        while True:
            try:
                self._serve_next(deadline)
            finally:
                self._share.keep(0)
            deadline = time.monotonic() + self._limits.idle_seconds

    def _serve_next(self, deadline: float) -> None:
        """Serve one request. The memory it took is released before its answer is sent."""
        if self._login is not None and self._login.wants_token:
            pieces = self._take_token(self._next_frame(deadline))
        else:
            pieces = self._answer(self._next_request(deadline))
        self._share.keep(sum(piece_size(one) for one in pieces if is_bytes(one)))
        self._channel.send(pieces)
        if self._login is not None:
            self._settle_login(self._login)

    def _next_request(self, deadline: float) -> Request:
        return read_request(self._next_frame(deadline), self._share.claim)

    def _next_frame(self, deadline: float) -> bytes:
        """Return the next frame. `deadline` is for its first byte."""
        is_begun = not self._frames.is_empty
        if is_begun:
            deadline = time.monotonic() + self._limits.frame_seconds
        claimed = 0
        while True:
            frame = self._frames.next()
            if frame is not None:
                return frame
            if not is_begun and not self._frames.is_empty:
                is_begun, deadline = True, time.monotonic() + self._limits.frame_seconds
            wanted = self._frames.wanted
            at_once = min(max(wanted, _SMALL_READ), READ_AT_ONCE)
            if self._frames.held + wanted > LARGE_FRAME:
                # Step by step, or a client that only announces a large request would keep others from theirs.
                # Twice, because a frame is copied once it is complete.
                needed = 2 * (self._frames.held + at_once)
                expected = 2 * (self._frames.held + wanted)
                self._share.claim(max(0, needed - claimed), expected=expected)
                claimed = max(needed, claimed)
            self._frames.feed(self._channel.receive(at_once, deadline))

    def _answer(self, request: Request) -> list[Piece]:
        self._traffic.requests[request.api.name] += 1
        if self._login is not None:
            if request.api.key not in BEFORE_AUTHENTICATION:
                raise NotAllowed(f"{request.api.name} before authentication")
            body = self._login.answer(request)
            if body is not None:
                return write_response(request, body)
        principal = self._principal or Principal()
        client = Client(self._host, self._advertised, self._channel.pause, principal, self._share)
        answered = self._answers.answer(request, client) if request.is_spoken else {}
        if answered is None:
            raise ConnectionEnded
        return write_response(request, answered, self._share.claim)

    def _take_token(self, frame: bytes) -> list[Piece]:
        """Answer a bare token in a frame: SASL before it had requests of its own."""
        assert self._login is not None
        answer = self._login.token(frame)
        return [] if answer is None else [framed(answer)]

    def _settle_login(self, login: Login) -> None:
        if login.failure is not None:
            time.sleep(login.failure_delay)
            raise NotAllowed(login.failure)
        if login.principal is not None:
            self._principal = login.principal
            self._login = None
            self._frames.limit = self._limits.frame_bytes
