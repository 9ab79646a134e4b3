"""A Chromium without a window and without a network, driven by its DevTools protocol over a pipe.

The tests of the page use it; of the page it knows only how it says that it is ready.
"""

import json
import select
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pytest

from mrtr_options.review.bench.messages import JsonObject
from mrtr_options.review.bench.world.starting import program

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

SECONDS = 60.0
"""The time for which the browser may be silent; it ends a test that hangs."""


class PageFailed(Exception):
    """A failed command; the text is the browser's message."""


class Tab:
    """One page in the browser.

    Attributes:
        complaints: Console messages of the page and the browser, and uncaught exceptions.
        asked: Every address that the page requested, its own first.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._commands = cast("IO[bytes]", cast(Any, process.stdin).buffer)
        self._answers = cast("IO[bytes]", cast(Any, process.stdout).buffer)
        self._buffer = b""
        self._number = 0
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self._session: dict[str, str] = {}
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        none = dict.fromkeys(("latency", "downloadThroughput", "uploadThroughput"), 0)
        self.send("Network.emulateNetworkConditions", offline=True, **none)

    def send(self, method: str, **params: Any) -> JsonObject:
        """Send a command and wait for its result.

        Raises:
            PageFailed: The browser refuses the command, or falls silent.
        """
        self._number += 1
        message = {"id": self._number, "method": method, "params": params, **self._session}
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        answer = self._read()
        while answer.get("id") != self._number:
            self._note(answer)
            answer = self._read()
        if "error" in answer:
            raise PageFailed(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _read(self) -> JsonObject:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], SECONDS)
            part = cast(Any, self._answers).read1() if ready else b""
            if not part:
                raise PageFailed(f"the browser ended, or said nothing for {SECONDS:.0f} s")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def _note(self, event: JsonObject) -> None:
        params: JsonObject = event.get("params", {})
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

    def open(self, address: str) -> None:
        """Open an address in a fresh page and wait until the page has marked its body as ready."""
        # Leave the page first, or the browser would only scroll to a new fragment.
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=address)
        self.wait("document.body?.dataset.ready")

    def wait(self, condition: str) -> None:
        """Wait until an expression in the page holds.

        Raises:
            PageFailed: The expression does not hold in time.
        """
        self.run(
            f"new Promise((done) => {{ const look = () => {condition}"
            " ? done(true) : setTimeout(look, 10); look(); })"
        )

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; await it if it is a promise.

        Raises:
            PageFailed: The expression throws.
        """
        done = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise PageFailed(details.get("exception", {}).get("description") or details["text"])
        return done["result"].get("value")

    def texts(self, selector: str) -> list[str]:
        """Return the texts of the elements that a selector finds."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return self.run(f"{found}.map((each) => each.textContent)")

    def show(self, fragment: str) -> None:
        """Follow a link within the page."""
        self.run(
            "new Promise((done) => { addEventListener('popstate', () => done(true),"
            f" {{ once: true }}); location.hash = {json.dumps(fragment)}; }})"
        )

    def click(self, selector: str) -> None:
        """Wait for an element, then click its middle with the mouse as a user does."""
        self.wait(f"document.querySelector({json.dumps(selector)})")
        x, y = self.run(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            " found.scrollIntoView({ block: 'center' }); const box = found.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key and let go: "Enter", " ", "ArrowDown", "ArrowRight"."""
        text, code = {"Enter": ("\r", 13), " ": (" ", 32)}.get(key, ("", 0))
        common = {"key": key, "text": text, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", **common, type="keyDown" if text else "rawKeyDown")
        self.send("Input.dispatchKeyEvent", **common, type="keyUp")

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the page's size in pixels, and its light or dark scheme."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])


FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--window-size=1400,900",
    "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
"""Chromium has no sandbox when it runs as root."""


@contextmanager
def tab(profile: Path) -> Generator[Tab]:
    """Start a browser with one empty page, and end it with the block.

    Skips the test if there is no browser.

    Args:
        profile: A folder of its own.
    """
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("needs a browser: apt-get install chromium")
    # The protocol's pipe is the browser's descriptors 3 and 4.
    shell = ["sh", "-c", 'exec "$@" 3<&0 4>&1 >/dev/null 2>&1', "sh"]
    command = [*shell, path, *FLAGS, f"--user-data-dir={profile}"]
    with program(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        opened = Tab(process)
        yield opened
        opened.send("Browser.close")  # asked politely, the browser ends its own processes
        process.wait(SECONDS)
