"""The options of `serve`: what is served, to whom, on which address, and the limits per client."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import MendBitsOpt
from kafkatool.errors import Refused, UsageError, unknown_word

if TYPE_CHECKING:
    import ssl

    from kafkatool.engine.directory.selection import Selection
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.serve.budget import Budget
    from kafkatool.engine.serve.catalog import CatalogChoice
    from kafkatool.engine.serve.connections import ConnectionLimits
    from kafkatool.engine.serve.partitions import Serving
    from kafkatool.engine.serve.sasl import Authentication
    from kafkatool.engine.serve.server import Address, Settings


class StableOffset(StrEnum):
    """The values of --last-stable-offset."""

    log = "log"
    end = "end"


@dataclass(frozen=True, slots=True)
class ShownOptions:
    """Which parts of the directories are served."""

    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include",
            metavar="deleted|stray|future|internal",
            help="Also serve these; comma-separated.",
        ),
    ] = None
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename",
            metavar="DIR=TOPIC",
            help="Serve this partition directory as a partition of TOPIC, for example to read a deleted one.",
        ),
    ] = None
    high_watermark: Annotated[
        str | None,
        typer.Option(
            "--high-watermark",
            metavar="checkpoint|end|N",
            help="How far consumers may read. By default to the end; with --follow to the checkpoint.",
        ),
    ] = None
    last_stable_offset: Annotated[
        StableOffset,
        typer.Option(
            "--last-stable-offset",
            help="Where read_committed consumers stop: at open transactions in the log, or at the end.",
        ),
    ] = StableOffset.log
    skip_damage: Annotated[
        bool,
        typer.Option(
            "--skip-damage", help="Leave out damaged batches instead of failing at them. Implies --verify."
        ),
    ] = False
    mend_bits: MendBitsOpt = False
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Check every checksum of a segment before serving it. By default only segments above the "
            "recovery point are checked, and only after an unclean shutdown.",
        ),
    ] = False
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow the logs as they grow; a broker may be writing to them.")
    ] = False

    def choice(self) -> CatalogChoice:
        """Return which partitions to serve, and under which names. Raises UsageError."""
        import os

        from kafkatool.engine.serve.catalog import INCLUDABLE, CatalogChoice
        from kafkatool.format.names import topic_problem

        words = [word.strip() for text in self.include or () for word in text.split(",") if word.strip()]
        for word in words:
            if word not in INCLUDABLE:
                raise unknown_word("--include", word, INCLUDABLE)
        renames: dict[str, str] = {}
        for text in self.rename or ():
            directory, equals, topic = text.rpartition("=")
            if not equals or not directory:
                raise UsageError(f"--rename {text}: write DIR=TOPIC")
            if problem := topic_problem(topic):
                raise UsageError(f"--rename {text}: no topic can have that name: {problem}")
            renames[os.path.normpath(directory)] = topic
        return CatalogChoice(frozenset(words), renames)

    def serving(self, guest: Guest) -> Serving:
        """Return how logs are served. Raises UsageError."""
        from kafkatool.commands.line.arguments import parse_high_watermark
        from kafkatool.engine.serve.log_files import LogFiles
        from kafkatool.engine.serve.partitions import Serving

        wanted = parse_high_watermark(self.high_watermark or ("checkpoint" if self.follow else "end"))
        return Serving(
            guest,
            LogFiles(mending=guest.mending),
            high_watermark=wanted if isinstance(wanted, int) else None,
            uses_checkpoint=wanted == "checkpoint",
            ignores_transactions=self.last_stable_offset is StableOffset.end,
            # A log must be read completely before it is known which of its bits are flipped.
            verifies=self.verify or self.skip_damage or self.mend_bits,
            skips_damage=self.skip_damage,
            follows=self.follow,
        )


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """Where it is served, and to whom."""

    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address to listen on. Any other than loopback needs --users, --tls-client-ca or "
            "--insecure. Port 0: any free port.",
        ),
    ] = "127.0.0.1:9092"
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise",
            metavar="HOST:PORT",
            help="Address that clients are given to connect to, for port forwarding. By default the one in "
            "use.",
        ),
    ] = None
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Listen on any address without a login: whoever can connect can read."
        ),
    ] = False
    tls_cert: Annotated[
        str | None,
        typer.Option(
            "--tls-cert",
            metavar="PEM",
            help="Certificate chain; turns on TLS. TLS hides what is sent, but anyone may still connect.",
        ),
    ] = None
    tls_key: Annotated[
        str | None,
        typer.Option(
            "--tls-key",
            metavar="PEM",
            help="Private key of the certificate, if it is not in the same file.",
        ),
    ] = None
    tls_client_ca: Annotated[
        str | None,
        typer.Option(
            "--tls-client-ca",
            metavar="PEM",
            help="Require client certificates of this authority (mutual TLS).",
        ),
    ] = None
    users: Annotated[
        str | None,
        typer.Option(
            "--users",
            metavar="FILE",
            help="Users for SASL PLAIN or SCRAM, one per line: name:password[:topic,topic*]. Mode 0600.",
        ),
    ] = None
    cluster_id: Annotated[
        str,
        typer.Option(
            "--cluster-id",
            metavar="ID",
            help="Cluster id that clients are given; `disk` for the one of the directory.",
        ),
    ] = "kafkatool-serve"
    offsets_file: Annotated[
        str | None,
        typer.Option(
            "--offsets-file",
            metavar="FILE",
            help="Keep committed offsets of groups in this file, outside the directories. By default only "
            "in memory.",
        ),
    ] = None
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="HOST:PORT",
            help="Serve counters for Prometheus at /metrics.",
        ),
    ] = None
    no_sendfile: Annotated[
        bool,
        typer.Option(
            "--no-sendfile", help="Do not use sendfile; copy records through this process, as with TLS."
        ),
    ] = False
    max_connections: Annotated[
        int, typer.Option("--max-connections", metavar="N", min=1, help="Connections at the same time.")
    ] = 2048
    max_connections_per_address: Annotated[
        int,
        typer.Option(
            "--max-connections-per-address",
            metavar="N",
            min=1,
            help="Connections at the same time from one address.",
        ),
    ] = 1024
    max_request: Annotated[
        str, typer.Option("--max-request", metavar="SIZE", help="Largest request to accept.")
    ] = "4M"
    max_memory: Annotated[
        str,
        typer.Option(
            "--max-memory",
            metavar="SIZE",
            help="Memory for all connections, their requests, responses and groups. If none is left, a "
            "client waits and is then disconnected.",
        ),
    ] = "256M"
    idle_timeout: Annotated[
        float,
        typer.Option(
            "--idle-timeout",
            metavar="SECONDS",
            min=1,
            help="Close connections that send nothing for this long.",
        ),
    ] = 600.0

    def settings(self) -> Settings:
        """Return the server's settings. Raises UsageError, or Refused if anyone could read everything."""
        from kafkatool.engine.serve.server import Settings

        listen, context = parse_address(self.listen), self._tls()
        is_open = not is_loopback(listen.host)
        if is_open and self.users is None and self.tls_client_ca is None and not self.insecure:
            tls = "" if context is None else " (--tls-cert alone asks nobody who they are)"
            raise Refused(
                f"--listen {self.listen}: anyone who reaches this address could read everything{tls}; "
                "use --users, --tls-client-ca, or --insecure if that is meant"
            )
        if self.metrics and not is_loopback(parse_address(self.metrics).host) and not self.insecure:
            raise Refused(f"--metrics {self.metrics}: not a loopback address; --insecure if that is meant")
        return Settings(
            listen,
            None if self.advertise is None else parse_address(self.advertise),
            context,
            self._authentication(is_private=context is not None or not is_open),
            self._limits(),
            not self.no_sendfile,
        )

    def budget(self) -> Budget:
        """Return the memory budget. Raises UsageError."""
        from kafkatool.commands.line.arguments import parse_size
        from kafkatool.engine.serve.budget import SMALLEST_SIZE, Budget

        size = parse_size(self.max_memory)
        least = max(SMALLEST_SIZE, 4 * parse_size(self.max_request))
        if size < least:
            raise UsageError(
                f"--max-memory {self.max_memory}: at least {least} bytes are needed, which is four times "
                f"--max-request and no less than {SMALLEST_SIZE}"
            )
        return Budget(size)

    def refuse_inside(self, found: Selection) -> None:
        """Check that offsets are kept outside of what is served. Raises Refused."""
        from kafkatool.engine.records.subject import is_inside

        path = self.offsets_file
        for home in found.homes:
            if path is not None and is_inside(path, home.path):
                raise Refused(f"--offsets-file {path}: it is in {home.path}, where nothing is ever written")

    def remarks(self) -> list[str]:
        """Return warnings about the files that are named."""
        import os

        from kafkatool.engine.advice.table import Advice
        from kafkatool.engine.serve.access import others_can_read

        key = self.tls_key or self.tls_cert
        if key is not None and others_can_read(os.stat(key).st_mode):
            return [f"{key}: others than its owner can read this private key: {Advice.HIDE_SECRET(file=key)}"]
        return []

    def _limits(self) -> ConnectionLimits:
        from kafkatool.commands.line.arguments import parse_size
        from kafkatool.engine.serve.connections import ConnectionLimits

        return ConnectionLimits(
            frame_bytes=parse_size(self.max_request),
            connections=self.max_connections,
            connections_of_address=self.max_connections_per_address,
            idle_seconds=self.idle_timeout,
        )

    def _authentication(self, *, is_private: bool) -> Authentication:
        from kafkatool.engine.serve.access import read_credentials
        from kafkatool.engine.serve.sasl import PLAIN, SCRAMS, Authentication

        by_certificate = self.tls_client_ca is not None
        if self.users is None:
            return Authentication(names_by_certificate=by_certificate)
        credentials = read_credentials(self.users)
        if not any(one.password for one in credentials.values()):
            if not by_certificate:
                raise UsageError(
                    f"{self.users}: no name has a password, so nobody could log in; "
                    "names without one are for --tls-client-ca"
                )
            return Authentication(credentials, names_by_certificate=True)
        # Over an unencrypted network, PLAIN would reveal the password.
        plain = (PLAIN,) if is_private or self.insecure else ()
        return Authentication(credentials, (*plain, *SCRAMS))

    def _tls(self) -> ssl.SSLContext | None:
        if self.tls_cert is None:
            if self.tls_key or self.tls_client_ca:
                raise UsageError("--tls-key and --tls-client-ca need --tls-cert")
            return None
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.tls_cert, self.tls_key, password=_no_password)
            if self.tls_client_ca is not None:
                context.load_verify_locations(self.tls_client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            named = ", ".join(filter(None, (self.tls_cert, self.tls_key, self.tls_client_ca)))
            raise UsageError(f"{named}: {error.strerror or error}") from None
        return context


def _no_password() -> str:
    raise UsageError("--tls-key: the key is protected by a password: decrypt it first")


def parse_address(text: str) -> Address:
    """Parse `127.0.0.1:9092`, `[::1]:9092`, `host:9092`. Raises UsageError."""
    from kafkatool.engine.serve.server import Address

    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UsageError(f"{text!r} is not an address: write HOST:PORT, for example 127.0.0.1:9092")
    return Address(host, int(port))


def is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
