"""One run of a server: its start-up messages, its status line, its end."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from kafkatool.commands.rows.serving import SERVE_SUMMARY, SERVING
from kafkatool.commands.screen.table import Ndjson
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, human_size, stdout, takes_escapes
from kafkatool.commands.serve.options import parse_address
from kafkatool.engine.files.lock import broker_is_alive
from kafkatool.engine.serve.answers import Answers, Identity, ServerReporter
from kafkatool.engine.serve.budget import Account
from kafkatool.engine.serve.catalog import Catalog, CatalogChoice, make_catalog
from kafkatool.engine.serve.committed import Committed, Offsets, read_consumer_offsets
from kafkatool.engine.serve.metrics import MetricsServer
from kafkatool.engine.serve.partitions import Serving
from kafkatool.engine.serve.server import Address, Server, Settings
from kafkatool.errors import KafkatoolError

if TYPE_CHECKING:
    from kafkatool.commands.serve.options import NetworkOptions
    from kafkatool.engine.directory.selection import Selection
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.serve.traffic import Totals

_LIST_AGAIN_SECONDS = 5.0
_OPENING_SECONDS = 2.0
_DEFAULT_NODE = 1


class Session(ServerReporter):
    """One run of `kafkatool serve`."""

    def __init__(
        self,
        settings: Settings,
        network: NetworkOptions,
        choice: CatalogChoice,
        how: Serving,
        found: Selection,
        catalog: Catalog,
        guest: Guest,
        speak: Talk,
        fmt: Format,
    ) -> None:
        self._settings = settings
        self._network = network
        self._choice = choice
        self._how = how
        self._found = found
        self._catalog = catalog
        self._listed_at = time.monotonic()
        self._guest = guest
        self._speak = speak
        self._rows = Ndjson(stdout()) if fmt is Format.ndjson else None
        self._shows_status = speak.show_progress and not speak.quiet and takes_escapes(sys.stderr)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        budget = network.budget()
        self._committed = Committed(self._seed, network.offsets_file, Account(budget))
        answers = Answers(
            self._current,
            self._identity(),
            self._committed,
            budget=budget,
            follows=how.follows,
            has_sasl=bool(settings.authentication.mechanisms),
            reporter=self,
        )
        self._server = Server(settings, answers, self)

    def run(self) -> None:
        """Serve until told to stop; return when everything is closed."""
        self._warn()
        opening = threading.Thread(target=self._open_all, daemon=True)
        opening.start()
        opening.join(_OPENING_SECONDS)  # its warnings come first, unless there is much to open
        address = self._server.listen()
        metrics = self._start_metrics()
        self._take_signals()  # once announced, the server may be told to stop
        self._announce(address, metrics)
        keeping = threading.Thread(target=self._keep, daemon=True)
        keeping.start()
        try:
            self._server.run()
        finally:
            signal.set_wakeup_fd(-1)
            self._ended.set()
            self._server.close()
            if metrics is not None:
                metrics.close()
            keeping.join(2.0)
            self._committed.save()
            self._conclude(self._server.totals())

    # --- catalog and offsets --------------------------------------------------------------------------

    def _current(self) -> Catalog:
        """Return the catalog; directories that grow are listed again from time to time."""
        if not self._how.follows or time.monotonic() - self._listed_at < _LIST_AGAIN_SECONDS:
            return self._catalog
        with self._lock:
            if time.monotonic() - self._listed_at >= _LIST_AGAIN_SECONDS:
                self._listed_at = time.monotonic()
                try:
                    self._catalog = make_catalog(self._found.anew(), self._choice, self._how, self._catalog)
                except KafkatoolError as error:
                    self._speak.detail(str(error))
        return self._catalog

    def _identity(self) -> Identity:
        metas = [home.log_dir.meta for home in self._found.homes if home.log_dir.meta is not None]
        nodes = [meta.node_id for meta in metas if meta.node_id is not None]
        cluster_id = self._network.cluster_id
        if cluster_id == "disk":
            ids = [meta.cluster_id for meta in metas if meta.cluster_id]
            cluster_id = ids[0] if ids else "kafkatool-serve"
        return Identity(cluster_id, nodes[0] if nodes else _DEFAULT_NODE)

    def _seed(self) -> Offsets:
        if not self._catalog.offsets:
            return {}
        offsets = read_consumer_offsets(self._catalog.offsets, self._guest)
        count = sum(map(len, offsets.values()))
        self._speak.note(f"{count} committed offsets of {len(offsets)} groups were read from the disk")
        return offsets

    # --- messages -------------------------------------------------------------------------------------

    def say(self, message: str) -> None:
        """Print a message in place of the status line, which reappears below it."""
        if self._shows_status:
            sys.stderr.write("\r\033[K")
        self._speak.warn(message)

    def detail(self, message: str) -> None:
        self._speak.detail(message)

    def _warn(self) -> None:
        for remark in self._network.remarks():
            self._speak.warn(remark)
        for home in self._found.homes:
            if broker_is_alive(home.path):
                hint = "" if self._how.follows else "; what it writes from now on is not served: --follow"
                self._speak.warn(f"{home.path}: a broker is running on it{hint}")
        if self._settings.authentication.mechanisms or self._settings.authentication.names_by_certificate:
            who = "clients that log in"
        else:
            who = "whoever can connect"
        self._speak.note(f"the ACLs of the cluster do not apply here: {who} can read what is served")

    def _open_all(self) -> None:
        """Open every partition ahead of the clients, and report what they should know."""
        for partition in list(self._catalog.partitions()):
            if self._ended.is_set():
                return
            try:
                partition.state()
                for remark in partition.remarks():
                    self._speak.warn(f"{partition.name}: {remark}")
            except KafkatoolError as error:
                self._speak.warn(f"{partition.name}: {error}")

    def _announce(self, address: Address, metrics: MetricsServer | None) -> None:
        catalog = self._catalog
        count = sum(1 for _ in catalog.partitions())
        told = self._settings.advertise or address
        security = _security(self._settings)
        self._speak.note(
            f"serving {_plural(count, 'partition')} of {_plural(len(catalog.topics), 'topic')} on {address}, "
            f"{security}; bootstrap.servers={told}; Ctrl-C ends it"
        )
        if metrics is not None:
            self._speak.note(f"metrics on http://{metrics.address}/metrics")
        if self._rows is not None:
            row = SERVING.row(
                host=address.host,
                port=address.port,
                bootstrap=str(told),
                security=security,
                topics=len(catalog.topics),
                partitions=count,
                metrics_port=None if metrics is None else metrics.address.port,
            )
            self._rows.write(row)
            sys.stdout.flush()

    def _conclude(self, totals: Totals) -> None:
        traffic = totals.traffic
        self._speak.note(
            f"served {_plural(totals.accepted, 'connection')}, {_plural(totals.requests, 'request')}, "
            f"{human_size(traffic.by_sendfile)} by sendfile, {human_size(traffic.by_copy)} by copying"
        )
        if self._rows is not None:
            self._rows.write(SERVE_SUMMARY.row(totals))

    # --- while it runs --------------------------------------------------------------------------------

    def _take_signals(self) -> None:
        """Handle signals: the first one asks to stop, the second ends the process."""

        def end(number: int, _frame: object) -> None:
            signal.signal(number, signal.SIG_DFL)
            self._server.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        # A signal may arrive in any thread: this wakes all of them.
        signal.set_wakeup_fd(self._server.wakeup_fd, warn_on_full_buffer=False)

    def _start_metrics(self) -> MetricsServer | None:
        if self._network.metrics is None:
            return None
        return MetricsServer(parse_address(self._network.metrics), self._server.totals)

    def _keep(self) -> None:
        """Every second, update the status line and save the offsets file."""
        before, then, told = 0, time.monotonic(), ""
        while not self._ended.wait(1.0):
            try:
                self._committed.save()
            except OSError as error:
                if error.strerror != told:  # retried every second
                    self._speak.warn(f"--offsets-file {self._network.offsets_file}: {error.strerror}")
                told = str(error.strerror)
            if self._shows_status:
                totals, now = self._server.totals(), time.monotonic()
                rate = (totals.record_bytes - before) / (now - then)
                before, then = totals.record_bytes, now
                sys.stderr.write(f"\r\033[K{_status(totals, rate)}\r")
                sys.stderr.flush()
        if self._shows_status:
            sys.stderr.write("\r\033[K")


def _status(totals: Totals, rate: float) -> str:
    traffic = totals.traffic
    return (
        f"{_plural(totals.connections, 'connection')}, {_plural(totals.requests, 'request')}, "
        f"{rate / 1e6:.1f} MB/s, {human_size(traffic.by_sendfile)} by sendfile, "
        f"{human_size(traffic.by_copy)} by copying"
    )


def _security(settings: Settings) -> str:
    words = ["TLS"] if settings.tls is not None else ["no TLS"]
    if settings.authentication.mechanisms:
        words.append("SASL " + ", ".join(settings.authentication.mechanisms))
    elif settings.authentication.names_by_certificate:
        words.append("certificates of clients")
    else:
        words.append("no login")
    return ", ".join(words)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
