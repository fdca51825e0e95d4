"""Counters of the network traffic, and their text format for Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Traffic:
    """Counted by one thread only; sums add up many of these."""

    requests: Counter[str] = field(default_factory=Counter)
    """By the name of the API."""
    by_sendfile: int = 0
    by_copy: int = 0
    other_bytes: int = 0
    """Sent besides records: headers, and answers without records."""
    received: int = 0

    def add(self, other: Traffic) -> None:
        # A copy: its own thread may still be counting.
        self.requests.update(dict(other.requests.copy()))
        self.by_sendfile += other.by_sendfile
        self.by_copy += other.by_copy
        self.other_bytes += other.other_bytes
        self.received += other.received


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the whole server since it started."""

    connections: int
    """Open now."""
    accepted: int
    refused: int
    failed: int
    """Ended by the server, because of what the client sent or did not send."""
    traffic: Traffic

    @property
    def requests(self) -> int:
        return self.traffic.requests.total()

    @property
    def record_bytes(self) -> int:
        return self.traffic.by_sendfile + self.traffic.by_copy


class TrafficTally:
    """The open connections, and the sums of the closed ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[int, Traffic] = {}
        self._past = Traffic()
        self._accepted = self._refused = self._failed = 0

    def opened(self, traffic: Traffic) -> None:
        with self._lock:
            self._accepted += 1
            self._live[id(traffic)] = traffic

    def closed(self, traffic: Traffic, *, failed: bool) -> None:
        with self._lock:
            self._past.add(self._live.pop(id(traffic)))
            self._failed += failed

    def refused(self) -> None:
        with self._lock:
            self._refused += 1

    def totals(self) -> Totals:
        with self._lock:
            summed = Traffic()
            for one in (self._past, *self._live.values()):
                summed.add(one)
            return Totals(len(self._live), self._accepted, self._refused, self._failed, summed)


def prometheus_text(totals: Totals) -> str:
    """Return one sample per line, each metric after its help and type lines."""
    return "".join(_samples(totals))


def _samples(totals: Totals) -> Iterator[str]:
    traffic = totals.traffic
    yield from _metric("connections", "gauge", "Connections that are open.", {"": totals.connections})
    yield from _metric("connections_total", "counter", "Connections accepted.", {"": totals.accepted})
    yield from _metric(
        "connections_refused_total", "counter", "Connections above a limit.", {"": totals.refused}
    )
    yield from _metric(
        "connections_failed_total", "counter", "Connections ended for what came.", {"": totals.failed}
    )
    requests = {f'{{api="{name}"}}': count for name, count in sorted(traffic.requests.items())}
    yield from _metric("requests_total", "counter", "Requests answered.", requests)
    sent = {
        '{by="sendfile"}': traffic.by_sendfile,
        '{by="copy"}': traffic.by_copy,
        '{by="send"}': traffic.other_bytes,
    }
    yield from _metric("sent_bytes_total", "counter", "Bytes sent: records, and the rest by send.", sent)
    yield from _metric("received_bytes_total", "counter", "Bytes received.", {"": traffic.received})


def _metric(name: str, kind: str, meaning: str, samples: dict[str, int]) -> Iterator[str]:
    full = f"kafkatool_serve_{name}"
    yield f"# HELP {full} {meaning}\n# TYPE {full} {kind}\n"
    yield from (f"{full}{labels} {value}\n" for labels, value in samples.items())
