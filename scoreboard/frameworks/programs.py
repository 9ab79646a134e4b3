"""A framework as a deployment of the review: a process for each delivery, effects from the ledger.

A request without a state starts a call; a request with a state resumes it, and the state is the
pause as JSON. Knows the folders of frameworks and the interface of their programs (README.md); no
case.
"""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types as types
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.session import ElicitationFnT

from mrtr_options.review.bench.deployments import Instances, scratch
from mrtr_options.review.bench.faults import KINDS
from mrtr_options.review.bench.history import Crashed, Effect, Received, Sent
from mrtr_options.review.bench.messages import HUNG, LOST, Reply, Request
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.steps import Change, Keys, Restart
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.ledger_file import ForeignLedger
from mrtr_options.review.bench.world.starting import kill_group
from mrtr_options.tool import weather
from scoreboard.frameworks.frameworks import Framework, Variant
from scoreboard.servers.peers import running_service, started

HANG_SECONDS = 90.0
"""The time limit of a delivery. After it the delivery hangs."""

END_SECONDS = 20.0
"""The time that a process has to end after its response."""

SLOW_SECONDS = "3"
"""The duration of a bill in a case in which two deliveries meet there."""

MAX_LINE = 1 << 24

PARKED = "parked: "
"""The prefix of the status of a call that the framework keeps, and that no process here may run."""

SILENT = "nothing: no question, no result, no error"
"""The error of a framework that returns nothing."""


@dataclass
class Programs:
    """A framework as a deployment.

    Attributes:
        framework, variant: The framework, and the way to write the tool.
        slow: Whether the bill takes seconds.
        processes: The number of deliveries.
        ours: The failures that are not the framework's: errors of our program, and its time limits.
        afterwards: The result of reading the call at the end, if the client had no result.
    """

    framework: Framework
    variant: Variant
    slow: bool = False
    processes: int = 0
    ours: list[str] = field(default_factory=list[str])
    afterwards: Afterwards | None = None

    def cannot(self, scenario: Scenario) -> str | None:
        return "that need more than one instance, or an old client" if scenario.needs_two else None

    @asynccontextmanager
    async def started(self, subject: Subject, scenario: Scenario) -> AsyncGenerator[Deliveries]:
        """Make a folder for the framework's data, and start its service, for one run."""
        with scratch() as folder:
            (folder / "store").mkdir()
            service = running_service(self.framework.service, self.framework.built, folder)
            async with service as port:
                kills = any(isinstance(step, Restart) for step in scenario.script)
                deliveries = Deliveries(self, folder, port, kills=kills)
                with closing(deliveries):
                    yield deliveries
                    self.afterwards = await deliveries.read_afterwards()


@dataclass(frozen=True)
class Afterwards:
    """The result of reading a call whose client had no result.

    Attributes:
        what: A result, an open question, a parked call, an error, or no way to read.
        says: The text of the result, the question, the status or the error.
        effects: The effects while it was read: some frameworks go on with a call then.
    """

    what: Literal["result", "question", "parked", "error", "unread"]
    says: str = ""
    effects: tuple[Effect, ...] = ()


class Deliveries(Instances):
    """The deliveries of one run.

    Args:
        programs: The programs of the framework, which count the deliveries and our own failures.
        folder: The folder of the framework's data.
        port: The port of its service.
        kills: Whether to kill each process as soon as it has responded.
    """

    def __init__(self, programs: Programs, folder: Path, port: int, *, kills: bool) -> None:
        super().__init__(1, HANG_SECONDS)
        self._programs = programs
        self._kills = kills
        ledger = weather.SqliteLedger(folder / "effects.sqlite")
        self._outside = ForeignLedger(ledger.path, self.recording)
        self._folder = folder
        self._log = folder / "log"
        self._crash = ""
        self._env = {
            "MRTR_STORE": str(folder / "store"),
            "MRTR_LEDGER": str(ledger.path),
            "MRTR_PORT": str(port),
            "MRTR_SLOW": SLOW_SECONDS if programs.slow else "0",
        }

    async def send(
        self,
        instance: int,
        request: Request,
        user: ElicitationFnT | None = None,
        gone: anyio.Event | None = None,
    ) -> Reply:
        line = _line(request, [each.call for each in self._sent() if each.request == request][-1])
        crash = self._crash
        self._crash = ""
        said, status = await self._deliver(line, crash)
        self._outside.collect()
        if said is None and status is None:
            self._programs.ours.append(f"no response in {HANG_SECONDS:.0f} s")
            return Reply(nothing=HUNG)
        if said is None:
            if status == -signal.SIGKILL and crash:
                self.recording.append(Crashed(instance, self.recording.sending_at(instance)))
            return Reply(nothing=LOST)
        if said.get("by") == "us":
            self._programs.ours.append(str(said["error"]))
        reply = reply_of(said)
        # The path of this run's folder differs every time.
        message = reply.message and reply.message.replace(str(self._folder), "...")
        return replace(reply, message=message)

    def _sent(self) -> list[Sent]:
        return [each for each in self.recording.events if isinstance(each, Sent)]

    async def read_afterwards(self) -> Afterwards | None:
        """Read the first call, if its client was left without a result."""
        sent = self._sent()
        replies = [each.reply for each in self.recording.events if isinstance(each, Received)]
        if not sent or (replies and replies[-1].is_result):
            return None
        first = sent[0].request
        pauses = [each.request.state for each in sent if each.request.state is not None]
        pause = json.loads(pauses[-1]) if pauses else None
        asks = {"call": "call-1", "pause": pause, "user": first.principal}
        before = len(self.recording.events)
        said, _ = await self._deliver({"read": asks}, "")
        self._outside.collect()
        late = self.recording.events[before:]
        effects = tuple(event for event in late if isinstance(event, Effect))
        return replace(_afterwards(said), effects=effects)

    async def _deliver(
        self, line: dict[str, Any], crash: str
    ) -> tuple[dict[str, Any] | None, int | None]:
        """Return a program's output and its exit code; neither if the program takes too long."""
        programs = self._programs
        programs.processes += 1
        env = self._env | ({"MRTR_CRASH": crash} if crash else {})
        program = programs.variant.start, programs.framework.built
        said: dict[str, Any] | None = None
        async with started(*program, env, self._log, talks=True) as process:
            with anyio.move_on_after(HANG_SECONDS) as waiting:
                said = await _exchanged(process, line)
                if self._kills:
                    kill_group(process.pid)
            if waiting.cancelled_caught:
                return None, None
            with anyio.move_on_after(END_SECONDS):
                return said, await process.wait()
        return said, -1 if process.returncode is None else process.returncode

    async def restart(self, keys: Keys) -> None:
        """Do nothing: the process was killed after its response."""

    async def redeploy(self, change: Change | None, only: int | None) -> None:
        self._env["MRTR_VERSION"] = change or ""

    async def arm(self, name: str | None, only: int | None = None) -> None:
        kind = KINDS[name] if name else None
        assert kind is None or kind.name.startswith("crash@")
        self._crash = (kind.at or "") if kind else ""

    async def crash(self, instance: int) -> None:
        """Do nothing: no process outlives its delivery."""

    async def collect(self) -> None:
        self._outside.collect()

    def close(self) -> None:
        """Let go of the ledger."""
        self._outside.close()


# --- one delivery -------------------------------------------------------------------------------


def _line(request: Request, call: int) -> dict[str, Any]:
    if request.state is None:
        return {"call": f"call-{call}", "location": request.location, "user": request.principal}
    (key, answer), *_ = (request.answers or {}).items()
    assert isinstance(answer, types.ElicitResult)
    (value,) = (answer.content or {}).values()
    pause = json.loads(request.state)
    return {"pause": pause, "name": key, "value": value, "user": request.principal}


async def _exchanged(process: Process, line: dict[str, Any]) -> dict[str, Any] | None:
    assert process.stdin is not None
    assert process.stdout is not None
    lines = BufferedByteReceiveStream(process.stdout)
    try:
        await process.stdin.send(json.dumps(line).encode() + b"\n")
        await process.stdin.aclose()
        said = b""
        while not said.startswith(b"{"):  # a library may print lines of its own
            said = await lines.receive_until(b"\n", MAX_LINE)
    except (anyio.BrokenResourceError, anyio.IncompleteRead):
        return None
    return json.loads(said)


def reply_of(said: dict[str, Any]) -> Reply:
    """Return a program's output as a response."""
    match said:
        case {
            "asked": {"key": str(key), "message": str(message), "choices": list()},
            "pause": pause,
        }:
            choices: list[str] = said["asked"]["choices"]
            one_of = {"enum": choices} if len(choices) > 1 else {"const": choices[0]}
            schema = {"type": "object", "properties": {key: one_of}, "required": [key]}
            state = json.dumps(pause, ensure_ascii=False)
            return Reply(questions={key: message}, schemas={key: schema}, state=state)
        case {"done": str(text)}:
            return Reply(text=text, blocks=("text",))
        case {"error": str(message)}:
            return Reply(code=types.INTERNAL_ERROR, message=message)
        case {"parked": str(status)}:
            return Reply(code=types.INTERNAL_ERROR, message=PARKED + status)
        case {"silent": True}:
            return Reply(code=types.INTERNAL_ERROR, message=SILENT)
        case _:
            return Reply(malformed=str(said)[:200])


def _afterwards(said: dict[str, Any] | None) -> Afterwards:
    """Return the result of reading a call, from a program's output."""
    match said:
        case {"done": str(text)}:
            return Afterwards("result", text)
        case {"asked": {"message": str(message)}}:
            return Afterwards("question", message)
        case {"parked": str(status)}:
            return Afterwards("parked", status)
        case {"error": str(message), "by": "library"}:
            return Afterwards("error", message)
        case _:
            return Afterwards("unread")
