"""A Chromium without a window and without a network, driven by its DevTools protocol over a pipe.

For the tests of the page. Knows nothing of it.
"""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

SECONDS = 60.0
"""How long the browser may take to answer. It is there to end what hangs."""


class NoBrowser(Exception):
    """There is none. The text is one line that says what to install."""


class PageFailed(Exception):
    """The page did not do what it was told; the text says what the browser says."""


def browser() -> str:
    """The path of a browser.

    Raises:
        NoBrowser: There is none.
    """
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise NoBrowser(f"there is no browser to open the page in: install one of {', '.join(BROWSERS)}")
    return found


class Tab:
    """One page in the browser.

    Attributes:
        complaints: What the page and the browser wrote to the console, and what threw.
        asked: Every address that the page asked for, itself first.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.asked: list[str] = []

    def attach(self) -> None:
        """Open an empty page and listen to it."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        none = dict.fromkeys(("latency", "downloadThroughput", "uploadThroughput"), 0)
        self.send("Network.emulateNetworkConditions", offline=True, **none)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its result.

        Raises:
            PageFailed: The browser refuses it, or does not answer in time.
        """
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            answer = self._read(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise PageFailed(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _read(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._answers, 1 << 20) if ready else b""
            if not part:
                raise PageFailed(f"the browser ended, or said nothing for {SECONDS:.0f} s")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def _note(self, event: dict[str, Any]) -> None:
        params: dict[str, Any] = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.complaints.append(json.dumps(params["args"]))
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.asked.append(params["request"]["url"])
            case _:
                pass

    def open(self, address: str, ready: str = "document.body?.dataset.ready") -> None:
        """Open an address in a fresh page and wait until the page is ready.

        Args:
            address: Which.
            ready: An expression that holds then; our own page says so on its body.
        """
        self.send("Page.navigate", url="about:blank")  # or a new fragment would only be followed
        self.send("Page.navigate", url=address)
        self.wait(ready)

    def wait(self, condition: str) -> None:
        """Wait until an expression in the page holds.

        Raises:
            PageFailed: It does not in time.
        """
        self.run(
            f"new Promise((done) => {{ const look = () => {condition}"
            " ? done(true) : setTimeout(look, 10); look(); })"
        )

    def run(self, script: str) -> Any:
        """The value of an expression in the page; of a promise, what it comes to.

        Raises:
            PageFailed: It throws.
        """
        done = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise PageFailed(details.get("exception", {}).get("description") or details["text"])
        return done["result"].get("value")

    def click(self, selector: str) -> None:
        """Click an element as a user does once it is there: with the mouse, in its middle."""
        self.wait(f"document.querySelector({json.dumps(selector)})")
        x, y = self.run(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            " found.scrollIntoView({ block: 'center' }); const box = found.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key and let go: "Tab", "Enter", " ", "ArrowRight"."""
        text = {"Enter": "\r", " ": " "}.get(key)
        code = {"Enter": 13, " ": 32, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38}
        code |= {"ArrowRight": 39, "ArrowDown": 40}
        common = {"key": key, "windowsVirtualKeyCode": code[key]}
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.send("Input.dispatchKeyEvent", **common, **down)
        self.send("Input.dispatchKeyEvent", **common, type="keyUp")

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Make the page so large, in pixels, and light or dark."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])


_WITH_PIPE = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
    " os.execv(sys.argv[3], sys.argv[3:])"
)
"""The protocol's pipe is the browser's descriptors 3 and 4."""

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    *("--remote-debugging-pipe", "--host-resolver-rules=MAP * ~NOTFOUND"),
)
"""As root there is no sandbox."""


def _pipe() -> tuple[int, int]:
    """The two ends of a pipe, neither of them descriptor 3 or 4."""
    ends = os.pipe()
    high = fcntl.fcntl(ends[0], fcntl.F_DUPFD, 10), fcntl.fcntl(ends[1], fcntl.F_DUPFD, 10)
    for end in ends:
        os.close(end)
    return high


def _end(opened: Tab, process: subprocess.Popen[bytes]) -> None:
    """End the browser by itself, so that it ends its own processes; by force where it does not."""
    try:
        opened.send("Browser.close")
        process.wait(SECONDS)
    except (PageFailed, OSError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()


@contextmanager
def tab() -> Generator[Tab]:
    """Start a browser with one empty page; end it with the block.

    Raises:
        NoBrowser: There is none.
    """
    path = browser()
    with tempfile.TemporaryDirectory(prefix="mrtr-browser-", ignore_cleanup_errors=True) as profile:
        read_here, write_there = _pipe()
        read_there, write_here = _pipe()
        pipe = [sys.executable, "-I", "-c", _WITH_PIPE, str(read_there), str(write_there)]
        process = subprocess.Popen(
            [
                *pipe,
                path,
                *_FLAGS,
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={profile}",
            ],
            pass_fds=(read_there, write_there),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        opened = Tab(write_here, read_here)
        try:
            opened.attach()
            yield opened
        finally:
            _end(opened, process)
            os.close(write_here)
            os.close(read_here)
