"""Plays guards that others sell, around the weather tool and around its charge alone.

Does a call that asks end, and is it charged once if its result is lost? Each guard is used as its
documentation writes it. Knows the guards' packages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from anyio import from_thread, to_thread
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import BaseModel

from mrtr_options.review.bench.client import MODES, refuse_question
from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.deployments.processes import LEDGER
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.bench.world.wrappers import make_wrappers, open_store
from mrtr_options.sdk.handler import Params, Result
from mrtr_options.sdk.protection import new_key
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.settings import Context, Handler, Settings
from mrtr_options.tool.weather import Effect, SqliteLedger
from scoreboard import ROOT, today
from scoreboard.clients.server import user_of
from scoreboard.proxies.upstream import bills_in, play_round, play_rounds
from scoreboard.servers.peers import cache, run_step

SUBJECTS = ("E", "F", "default")
CALL_SECONDS = 60.0

PACKAGES = ("agentraas==0.14.0", "agent-once==0.1.0", "exactly-once==0.2.1", "safeact==0.0.2")
BESIDE = "safeact-mcp==0.0.1"
"""A package whose own requirements are those of this project."""

Function = Callable[[str], Any]


def _agentraas(file: str, function: Function) -> Function:
    local = import_module("agentraas.local")
    return local.exactly_once(local.SQLiteStore(file))(function)


def _agent_once(file: str, function: Function) -> Function:
    tool = import_module("once.integrations.mcp").once_tool
    once = import_module("once").Once(file)
    return tool(once, name=TOOL, scope_arg="location")(function)


def _exactly_once(file: str, function: Function) -> Function:
    def name_of(location: str) -> str:
        return f"{TOOL}:{location}"

    module = import_module("exactly_once")
    return module.once(module.Store.sqlite(file), key=name_of)(function)


def _safeact(file: str, function: Function) -> Function:
    return import_module("safeact_mcp").safe_tool(file, name=TOOL, key_arg="location")(function)


@dataclass(frozen=True)
class Guard:
    """A guard that others sell.

    Attributes:
        title: Its package and version.
        around: Puts it around a function of a location, with the file of its store.
        tool, charge: The way in which it is put around the tool, and around the charge.
        wraps: Whether around the tool it is a program in front of the server.
    """

    title: str
    around: Callable[[str, Function], Function]
    tool: str
    charge: str
    wraps: bool = False


GUARDS = {
    "agentraas": Guard(
        PACKAGES[0], _agentraas, "`agentraas wrap -- COMMAND`", "`@exactly_once`", True
    ),
    "agent-once": Guard(PACKAGES[1], _agent_once, '`@once_tool(scope_arg="location")`', "the same"),
    "exactly-once": Guard(
        PACKAGES[2], _exactly_once, "`@once(key=...)` of the location", "the same"
    ),
    "safeact-mcp": Guard(BESIDE, _safeact, '`@safe_tool(key_arg="location")`', "the same"),
}


class Guarded(BaseModel):
    """The result of a server in a guard.

    Attributes:
        end: How a call that asks ends: "result", "asks for ever" or an error.
        resent: How often the user is charged if the result is lost and the client sends it again.
        called_again: How often, if the client calls the tool again.
    """

    end: str
    resent: int
    called_again: int


class GuardResults(BaseModel):
    """The kept results of a guard: by what it is around ("tool", "charge"), and by server."""

    date: str
    cells: dict[str, dict[str, Guarded]]


# --- the server in a guard ----------------------------------------------------------------------


def around_tool(guard: Guard, file: str) -> Callable[[Handler], Handler]:
    """Return a wrapper that puts a guard around a handler, as around a function of the location."""

    def wrap(handler: Handler) -> Handler:
        async def guarded(ctx: Context, params: Params) -> Result:
            async def handled() -> Result:
                return await handler(ctx, params)

            def weather(location: str) -> dict[str, Any]:
                result = from_thread.run(handled)
                return result.model_dump(mode="json", by_alias=True, exclude_none=True)

            location = (params.arguments or {})["location"]
            kept = await to_thread.run_sync(guard.around(file, weather), location)
            asks = kept.get("resultType") == "input_required"
            kind = types.InputRequiredResult if asks else types.CallToolResult
            return kind.model_validate(kept)

        return guarded

    return wrap


class GuardedLedger(SqliteLedger):
    """A ledger whose charges are inside a guard."""

    guard: Guard | None = None
    file: str = ""

    async def record(self, effect: Effect) -> None:
        record = super().record
        if self.guard is None or effect.kind != "bill":
            await record(effect)
            return

        def charge(location: str) -> str:
            from_thread.run(record, effect)
            return location

        await to_thread.run_sync(self.guard.around(self.file, charge), effect.subject)


@asynccontextmanager
async def client_of(
    guard: Guard, around: str, subject: str, folder: Path
) -> AsyncGenerator[Client]:
    """Connect a client with a server in a guard for the block."""
    file = str(folder / "guard.sqlite")
    ledger = GuardedLedger(folder / LEDGER)
    server: Any
    if guard.wraps and around == "tool":
        wrap = ["-m", "agentraas.cli", "wrap", "--db", file, "--log", "", "--"]
        serve = [sys.executable, "-m", "scoreboard.clients.swallow", subject, str(folder), "0"]
        env = os.environ | {"PYTHONPATH": str(installed())}
        server = stdio_client(
            StdioServerParameters(command=sys.executable, args=[*wrap, *serve], env=env, cwd=ROOT)
        )
    else:
        found = subject_named(subject)
        wrappers = make_wrappers(found.wrappers, open_store(folder / "rounds.sqlite"))
        if around == "tool":
            wrappers.append(around_tool(guard, file))
        else:
            ledger.guard, ledger.file = guard, file
        settings = Settings(ledger, keys=[new_key()], wrappers=wrappers, principal=user_of)
        server = load(found.option.path, settings)
    async with Client(server, mode=MODES["modern"], elicitation_callback=refuse_question) as client:
        yield client


# --- the calls ----------------------------------------------------------------------------------


async def _charges(guard: Guard, around: str, subject: str, *, resends: bool) -> tuple[str, int]:
    """Play a call whose result is lost; return how it ends, and how often it charges."""
    with scratch() as folder, anyio.fail_after(CALL_SECONDS):
        async with client_of(guard, around, subject, folder) as client:
            end, last = await play_rounds(repeat(client))
            if end == "result":
                await (play_round(client, last) if resends else play_rounds(repeat(client)))
        return end, await bills_in(folder)


async def play_guard(guard: Guard) -> GuardResults:
    """Play a guard around the tool and around the charge, with each server."""
    cells: dict[str, dict[str, Guarded]] = {"tool": {}, "charge": {}}
    for around, by_subject in cells.items():
        for subject in SUBJECTS:
            end, resent = await _charges(guard, around, subject, resends=True)
            _, called_again = await _charges(guard, around, subject, resends=False)
            by_subject[subject] = Guarded(end=end, resent=resent, called_again=called_again)
    return GuardResults(date=today(), cells=cells)


# --- their packages -----------------------------------------------------------------------------


def installed() -> Path:
    """Return the folder in which the guards are installed."""
    return cache() / "guards"


def install() -> None:
    """Install the guards in the cache, unless they are there, and make them importable."""
    folder = installed()
    sys.path.append(str(folder))
    if (folder / "safeact_mcp").is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    run_step([*pip, *PACKAGES], folder)
    run_step([*pip, "--no-deps", BESIDE], folder)
