"""A headless Chromium, driven through a pipe: what a page does when somebody opens it.

    with Browser(require_program("chromium"), tmp_path) as browser:
        browser.open(path, width=360, dark=True)
        browser.ask("document.title")

What the page said to the console, and what it asked of the network, is kept in `complaints` and `requests`.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from tests.terminals import is_readable

_SECONDS = 60
_FLAGS = (
    *("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-sandbox"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
    *("--disable-extensions", "--no-default-browser-check", "--remote-debugging-pipe"),
)


class Browser:
    """One browser with one page. It reads messages on descriptor 3 and answers on 4; each ends with NUL."""

    def __init__(self, program: str, directory: Path) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        command = [program, *_FLAGS, f"--user-data-dir={directory}", "about:blank"]
        # As 3 and 4, whatever their numbers here: a shell that starts the program passes both on.
        words = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *command]
        self._process = subprocess.Popen(
            words,
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._left, self._session = 0, b"", None
        target = self._tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._tell(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._to)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)

    def open(self, path: Path, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Show a file, and wait until it is loaded."""
        self._tell(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._tell("Emulation.setEmulatedMedia", features=[scheme])
        self._tell("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + _SECONDS
        while self.ask("document.readyState") != "complete" or self.ask("location.href") == "about:blank":
            assert time.monotonic() < deadline, f"{path} is never complete"

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page, whatever its policy forbids its own scripts."""
        return self._tell("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get(
            "value"
        )

    def picture(self) -> bytes:
        """Return a screenshot of the window as PNG."""
        shot = self._tell("Page.captureScreenshot", format="png", optimizeForSpeed=True)
        return base64.b64decode(shot["data"])

    def _tell(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        method, said = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(said["entry"]["text"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.complaints.append(json.dumps(said))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            assert is_readable(self._from, _SECONDS), "Chromium does not answer"
            more = os.read(self._from, 1 << 20)
            assert more, "Chromium has ended"
            self._left += more
        message, _nul, self._left = self._left.partition(b"\0")
        return dict(json.loads(message))
