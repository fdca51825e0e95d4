"""The counters over HTTP, for Prometheus: one page, one answer at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer

from kafkatool.engine.serve.server import Address
from kafkatool.engine.serve.traffic import Totals, prometheus_text
from kafkatool.errors import KafkatoolError

_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SLOWEST_SECONDS = 5.0


class MetricsServer:
    """Listens in a thread of its own until it is closed."""

    def __init__(self, address: Address, totals: Callable[[], Totals]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _SLOWEST_SECONDS

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404)
                    return
                body = prometheus_text(totals()).encode()
                self.send_response(200)
                self.send_header("Content-Type", _TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: reads of the counters are of no interest."""

        try:
            self._server = HTTPServer((address.host, address.port), Handler)
        except OSError as error:
            raise KafkatoolError(f"--metrics {address}: {error.strerror or error}") from error
        self.address = Address(address.host, int(self._server.server_address[1]))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
