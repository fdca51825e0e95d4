"""Logging in: SASL PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 4616, 5802), as Kafka wraps them.

    PLAIN   authzid NUL name NUL password
    SCRAM   client: n,,n=name,r=nonce            server: r=nonce+ours,s=salt,i=rounds
            client: c=biws,r=both,p=proof        server: v=signature

The server has the passwords in a file, so both sides of SCRAM are computed from them; the benefit of SCRAM is
that passwords are not sent over the network.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from dataclasses import dataclass, field
from typing import Protocol

from kafkatool.engine.serve.access import ANYBODY, Credential, Principal
from kafkatool.format.protocol.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafkatool.format.protocol.errors import ErrorCode
from kafkatool.format.protocol.frames import Request
from kafkatool.format.schema.layout import Tree

PLAIN = "PLAIN"
SCRAMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ROUNDS = 4096
_FAILURE_DELAY = 0.1  # clients retry at once, some of them a hundred times


class Refusal(Exception):
    """The client has not proven its identity."""


class Mechanism(Protocol):
    """A conversation of tokens; `principal` is set at its end."""

    principal: Principal | None

    def token(self, data: bytes) -> bytes:
        """Return the answer to a token; raise Refusal."""


@dataclass(frozen=True, slots=True)
class Authentication:
    """Who may connect, and how. Without credentials anybody may."""

    credentials: dict[str, Credential] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    names_by_certificate: bool = False
    salt: bytes = field(default_factory=lambda: os.urandom(16))

    def without_login(self, peer_name: str | None) -> Principal | None:
        """Return the principal if no login is needed; None if one is."""
        if self.mechanisms:
            return None
        if not self.names_by_certificate:
            return ANYBODY
        known = self.credentials.get(peer_name or "")
        if known is not None:
            return known.principal
        # If there is a list of names, a client that is not on it may read nothing.
        return Principal(peer_name or "anonymous", () if self.credentials else None)

    def login(self) -> Login:
        return Login(self)


class Login:
    """The login of one connection."""

    failure_delay = _FAILURE_DELAY

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        self._mechanism: Mechanism | None = None
        self.wants_token = False
        """The next frame is a bare token: the client used version 0 of the handshake."""
        self.failure: str | None = None
        self.principal: Principal | None = None

    def answer(self, request: Request) -> Tree | None:
        """Answer a handshake or a token; return None for another request."""
        if request.api is SASL_HANDSHAKE:
            return self._handshake(str(request.body["mechanism"]), request.version)
        if request.api is SASL_AUTHENTICATE:
            data = request.body["authBytes"]
            assert isinstance(data, bytes)
            try:
                return {"errorMessage": None, "authBytes": self._step(data)}
            except Refusal as refusal:
                self.failure = f"authentication failed: {refusal}"
                message = "Authentication failed: Invalid username or password"
                return {"errorCode": ErrorCode.SASL_AUTHENTICATION_FAILED, "errorMessage": message}
        return None

    def token(self, data: bytes) -> bytes | None:
        """Answer a bare token; return None for a failed login, where the protocol has no answer."""
        try:
            return self._step(data)
        except Refusal as refusal:
            self.failure = f"authentication failed: {refusal}"
            return None

    def _handshake(self, name: str, version: int) -> Tree:
        listed: Tree = {"mechanisms": list(self._authentication.mechanisms)}
        if name not in self._authentication.mechanisms:
            self.failure = "a SASL mechanism that is not offered"
            return {**listed, "errorCode": ErrorCode.UNSUPPORTED_SASL_MECHANISM}
        credentials = self._authentication.credentials
        if name == PLAIN:
            self._mechanism = _Plain(credentials)
        else:
            self._mechanism = _Scram(SCRAMS[name], credentials, self._authentication.salt)
        self.wants_token = version == 0
        return listed

    def _step(self, data: bytes) -> bytes:
        if self._mechanism is None:
            raise Refusal("a token without a handshake")
        answer = self._mechanism.token(data)
        self.principal = self._mechanism.principal
        return answer


class _Plain:
    def __init__(self, credentials: dict[str, Credential]) -> None:
        self._credentials = credentials
        self.principal: Principal | None = None

    def token(self, data: bytes) -> bytes:
        parts = data.split(b"\0")
        if len(parts) != 3:
            raise Refusal("a malformed PLAIN token")
        authzid, name, password = (part.decode(errors="replace") for part in parts)
        known = self._credentials.get(name)
        wanted = known.password if known is not None else ""
        is_right = hmac.compare_digest(password.encode(), wanted.encode())
        if known is None or not wanted or not is_right or authzid not in ("", name):
            raise Refusal(f"user {name!r}")
        self.principal = known.principal
        return b""


class _Scram:
    def __init__(self, digest: str, credentials: dict[str, Credential], salt: bytes) -> None:
        self._digest = digest
        self._credentials = credentials
        self._salt = salt
        self._first: bytes | None = None
        self._name = ""
        self._nonce = ""
        self._said = b""
        self.principal: Principal | None = None

    def token(self, data: bytes) -> bytes:
        try:
            return self._begin(data.decode()) if self._first is None else self._end(data.decode())
        except (UnicodeDecodeError, BadBase64, ValueError, IndexError) as error:
            raise Refusal(f"a malformed SCRAM message: {error}") from None

    def _begin(self, message: str) -> bytes:
        flag, authzid, bare = message.split(",", 2)
        if flag not in ("n", "y") or not (authzid == "" or authzid.startswith("a=")):
            raise Refusal("channel binding is not supported")
        fields = _fields(bare)
        self._name = fields["n"].replace("=2C", ",").replace("=3D", "=")
        self._nonce = fields["r"] + b64encode(os.urandom(18)).decode()
        self._first = bare.encode()
        self._said = f"r={self._nonce},s={b64encode(self._user_salt()).decode()},i={_ROUNDS}".encode()
        return self._said

    def _end(self, message: str) -> bytes:
        assert self._first is not None
        fields = _fields(message)
        without_proof = message.rpartition(",p=")[0].encode()
        known = self._credentials.get(self._name)
        password = known.password if known is not None else ""
        salted = hashlib.pbkdf2_hmac(self._digest, password.encode(), self._user_salt(), _ROUNDS)
        client_key = self._hmac(salted, b"Client Key")
        both = b",".join([self._first, self._said, without_proof])
        signature = self._hmac(hashlib.new(self._digest, client_key).digest(), both)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        is_right = hmac.compare_digest(proof, b64decode(fields["p"], validate=True))
        if known is None or not password or not is_right or fields["r"] != self._nonce:
            raise Refusal(f"user {self._name!r}")
        self.principal = known.principal
        server_signature = self._hmac(self._hmac(salted, b"Server Key"), both)
        return b"v=" + b64encode(server_signature)

    def _user_salt(self) -> bytes:
        """Return a salt per name, always the same, known or not: it does not reveal which names exist."""
        return self._hmac(self._salt, self._name.encode())[:16]

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self._digest).digest()


def _fields(message: str) -> dict[str, str]:
    """Parse `n=name,r=nonce`; raise ValueError for anything else."""
    fields = dict(part.split("=", 1) for part in message.split(","))
    return _Required(fields)


class _Required(dict[str, str]):
    def __missing__(self, key: str) -> str:
        raise ValueError(f"it lacks {key}=")
