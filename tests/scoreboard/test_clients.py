"""Tests of the clients' board, on the Python client: the proxy, and the made-up responses.

Also tests what the client's half (`ResumingClient`) makes of broken responses. `make clients` plays
the other clients, and the cases that take a minute.
"""

import importlib
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from mrtr_options.demo.call import agree
from mrtr_options.review.bench.deployments.processes import LEDGER, build
from mrtr_options.review.bench.messages import Era
from mrtr_options.sdk.handler import JsonObject
from mrtr_options.sdk.resuming import ResumingClient
from mrtr_options.sdk.serving import PATH
from mrtr_options.tool import weather
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import count
from scoreboard.clients.peers import FOLDER, peers
from scoreboard.clients.play import Cell, Seen, cells, play
from scoreboard.clients.programs import Said
from scoreboard.clients.proxy import CALL, POLL, Break, How, Proxy
from scoreboard.clients.server import SERVERS, TASKS, Serving, places, served_in, serving, way
from scoreboard.clients.troubles import TROUBLES
from scoreboard.wire import Request
from tests.bounds import SECONDS
from tests.sending import over_http, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    folders = [str(FOLDER), str(FOLDER / "python")]
    monkeypatch.setattr(sys, "path", [*folders, *sys.path])


class Here:
    """The Python client's program, run in this process."""

    ended = False

    async def do(self, job: JsonObject, seconds: float) -> Said:
        said = Said()
        jobs = importlib.import_module("jobs")
        client = importlib.import_module("client")

        def take(line: str) -> None:
            said.take(json.loads(line))

        with anyio.fail_after(SECONDS):
            await jobs.one(client.call, jobs.Job(**job, print=take))
        return said


@pytest.fixture(params=["F"])
async def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Serving]:
    """Serve one of the servers from this process."""
    called = SERVERS[request.param]
    monkeypatch.setattr(weather, "REPORTS", weather.REPORTS | places(1))
    ledger = weather.SqliteLedger(tmp_path / LEDGER)
    async with over_http(build(served_in(tmp_path, called), ledger)) as url:
        yield Serving(url.removesuffix(PATH), ledger.path, called)


async def seen_in(trouble: str, server: Serving, era: Era = "modern") -> Seen:
    """Play the Python client under a trouble."""
    cell = Cell(peers()["python"], era, TROUBLES[trouble], server.way)
    found = await play(cell, server, 0, Here())
    assert found is not None
    return found


UNREACHED = "MCPError -32603: Server returned an error response"
ONCE = {"audits": 1, "bills": 1}
# The second call of the application gets the recorded result, without a question.
REPEATED = {"made_again": True, "got": "result", "asked": 2, **ONCE}
SENT_TWICE = {"got": "result", "requests": 4, "again": 1, "bills": 2}
COMES_TO: list[tuple[str, Era, str, Mapping[str, object]]] = [
    ("F", "modern", "none", {"got": "result", "requests": 3, "asked": 2, "usable": True, **ONCE}),
    ("F", "modern", "none", {"version": "2026-07-28"}),
    ("F", "legacy", "none", {"version": "2025-11-25"}),
    # The client does not ask for a lost result again, and the call never raises.
    (
        "F",
        "modern",
        "cut-final",
        {"got": "client error", "requests": 3, "again": 0, "usable": None, **ONCE},
    ),
    # The application calls again, and pays twice.
    ("F", "modern", "cut-final-again", {"got": "result", "asked": 4, "audits": 2, "bills": 2}),
    ("default", "modern", "cut-final-again", REPEATED),
    ("default", "legacy", "cut-final-again", REPEATED),
    # A standard lets the client send the round again; the server has done the work.
    ("F", "modern", "307", {**SENT_TWICE, "same_id": True}),
    ("F+guard", "modern", "307", {"again": 1, "bills": 1}),
    ("F", "modern", "401", {**SENT_TWICE, "asked": 2}),
    ("F", "modern", "403", {**SENT_TWICE, "asked": 2}),
    ("F", "modern", "-32020", {**SENT_TWICE, "same_id": False}),
    ("F", "modern", "421", {"got": "error", "requests": 3, "again": 0, "bills": 1}),
    # The gateway did not reach the server, so nothing is billed.
    (
        "F",
        "modern",
        "503",
        {"got": "error", "says": UNREACHED, "usable": True, "audits": 1, "bills": 0},
    ),
    # A state without a question is sent on; no server is called.
    (
        "F",
        "modern",
        "state-only-twice",
        {"got": "result", "says": "done", "requests": 3, "bills": None},
    ),
]
"""The server, the era and the trouble, and what a call then comes to."""


@pytest.mark.parametrize(("server", "era", "trouble", "comes_to"), COMES_TO, indirect=["server"])
async def test_a_call_of_the_python_client_comes_to_what_is_said_of_it(
    server: Serving, era: Era, trouble: str, comes_to: Mapping[str, object]
) -> None:
    found = await seen_in(trouble, server, era)
    assert {name: getattr(found, name) for name in comes_to} == comes_to
    assert trouble != "cut-final" or "RemoteProtocolError" in found.says


async def test_a_history_tells_each_request_and_what_became_of_it(server: Serving) -> None:
    found = await seen_in("502-again", server)
    first = [
        "request 1: begins a call",
        "response: question",
        "request 2: goes on, answers place",
        "response: question",
        "request 3: goes on, answers units",
    ]
    again = [line.replace("3", "6").replace("2", "5").replace("1", "4") for line in first]
    assert found.history == [
        *first,
        "a gateway answers 502; the server did the work",
        *again,
        "response: result",
    ]


def request(method: str, **params: Any) -> Request:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return Request("POST", PATH, {}, body)


def test_a_task_has_its_messages_in_polls_and_a_question_that_is_shown_twice_counts_once() -> None:
    proxy = Proxy("", Break("cut", 3))
    asks: JsonObject = {
        key: {"status": "input_required", "inputRequests": {key: {}}} for key in ("place", "units")
    }
    done: JsonObject = {"status": "completed", "result": {}}
    proxy.takes(request(CALL, name=TOOL))
    responses: list[tuple[str, JsonObject]] = [
        (CALL, {"resultType": "task", "status": "working"}),
        (POLL, {"status": "working"}),
        (POLL, asks["place"]),
        (POLL, asks["place"]),
        (POLL, asks["units"]),
        (POLL, done),
    ]
    faults = [
        proxy.sends(request(method), json.dumps({"result": result}).encode())
        for method, result in responses
    ]
    assert [each is not None for each in faults] == [False] * 5 + [True]
    assert proxy.history[1:] == [
        "response: task",
        "response: question",
        "response: question",
        "the connection is closed before the response",
    ]


def test_only_a_client_that_takes_tasks_calls_the_server_of_tasks() -> None:
    every = peers().values()
    played = cells([*every], [TROUBLES["none"], TROUBLES["stdio"]], [*SERVERS.values()])
    tasks = [each for each in played if each.way.name == TASKS]
    assert {each.peer for each in tasks} == {each for each in every if each.takes_tasks}
    assert {(each.era, each.trouble.name) for each in tasks} == {("modern", "none")}


@pytest.mark.slow
async def test_every_broken_response_is_made_good() -> None:
    broken: list[tuple[How, int]] = [
        ("cut", 1),
        ("cut", 2),
        ("reset", 3),
        ("half-json", 3),
        ("502", 1),
        ("empty", 2),
    ]
    with anyio.fail_after(10 * SECONDS):
        async with serving(way("F+guard"), 10) as server:  # the guard honours call keys
            async with Client(server.origin + PATH) as client:
                await client.list_tools()  # wait for the store, or a key would be older than it
            for how, at in broken:
                proxy = Proxy(server.origin, Break(how, at))
                async with proxy.running() as origin:
                    connect = partial(Client, origin + PATH, elicitation_callback=agree)
                    async with ResumingClient(
                        connect, server=origin, principal="", honours_keys=True, pause_seconds=0.01
                    ) as client:
                        result = await client.call_tool(TOOL, {"location": "Springfield 1"})
                assert text_of(result).startswith("Springfield 1, Illinois")
                assert proxy.happened
                assert len({sent.id for sent in proxy.sent}) == len(proxy.sent) == 4, f"{how} {at}"
            effects = count(await weather.SqliteLedger(server.ledger).effects())
    assert effects == {"audit": len(broken), "bill": len(broken)}
