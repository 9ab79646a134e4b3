"""Tests of the clients' board, on the Python client: the proxy, and the made-up responses.

Also tests what the client's half (`ResumingClient`) makes of broken responses. `make clients` plays
the other clients, and the cases that take a minute.
"""

import importlib
import json
import sys
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from mrtr_options.demo.call import agree
from mrtr_options.review.bench.deployments.processes import LEDGER
from mrtr_options.review.bench.messages import Era
from mrtr_options.review.bench.world.ledger_file import effects_after
from mrtr_options.sdk.resuming import ResumingClient
from mrtr_options.sdk.serving import PATH
from mrtr_options.tool import weather
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import count
from scoreboard.clients.peers import FOLDER, peers
from scoreboard.clients.play import Cell, Seen, cells, play
from scoreboard.clients.programs import Said
from scoreboard.clients.proxy import CALL, POLL, Break, How, Proxy
from scoreboard.clients.server import SERVERS, TASKS, Serving, build, places, serving, way
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

    async def do(self, job: dict[str, Any], seconds: float) -> Said:
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
    async with over_http(build(called, tmp_path)) as url:
        yield Serving(url.removesuffix(PATH), tmp_path / LEDGER, called)


async def seen_in(trouble: str, server: Serving, era: Era = "modern") -> Seen:
    """Play the Python client under a trouble."""
    cell = Cell(peers()["python"], era, TROUBLES[trouble], server.way)
    found = await play(cell, server, 0, Here())
    assert found is not None
    return found


UNREACHED = "MCPError -32603: Server returned an error response"
ONCE = {"audits": 1, "bills": 1}
COMES_TO: dict[str, dict[str, object]] = {
    "none": {"got": "result", "requests": 3, "asked": 2, "usable": True, **ONCE},
    # The client does not ask for a lost result again, and the call never raises.
    "cut-final": {"got": "client error", "requests": 3, "again": 0, "usable": None, **ONCE},
    # The application calls again, and pays twice.
    "cut-final-again": {"got": "result", "asked": 4, "audits": 2, "bills": 2},
    # A standard lets the client send the round again; the server has done the work.
    "307": {"got": "result", "requests": 4, "again": 1, "same_id": True, "bills": 2},
    "401": {"got": "result", "requests": 4, "again": 1, "asked": 2, "bills": 2},
    "403": {"got": "result", "requests": 4, "again": 1, "asked": 2, "bills": 2},
    "-32020": {"got": "result", "requests": 4, "again": 1, "same_id": False, "bills": 2},
    "421": {"got": "error", "requests": 3, "again": 0, "bills": 1},
    # The gateway did not reach the server, so nothing is billed.
    "503": {"got": "error", "says": UNREACHED, "usable": True, "audits": 1, "bills": 0},
}


@pytest.mark.parametrize("trouble", COMES_TO)
async def test_a_call_of_the_python_client_comes_to_what_is_said_of_it(
    trouble: str, server: Serving
) -> None:
    found = await seen_in(trouble, server)
    assert {name: getattr(found, name) for name in COMES_TO[trouble]} == COMES_TO[trouble]
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


@pytest.mark.parametrize("server", ["default"], indirect=True)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_default_charges_once_when_the_application_calls_again(
    server: Serving, era: Era
) -> None:
    found = await seen_in("cut-final-again", server, era)
    assert found.made_again is True
    assert found.got == "result"
    assert found.bills == 1
    assert found.audits == 1
    assert found.asked == 2  # the second call gets the recorded result


@pytest.mark.parametrize("server", ["F+guard"], indirect=True)
async def test_the_guard_charges_once_where_the_round_is_redirected(server: Serving) -> None:
    found = await seen_in("307", server)
    assert found.again == 1
    assert found.bills == 1


@pytest.mark.parametrize(("era", "version"), [("modern", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_a_run_says_the_version_that_was_spoken(
    server: Serving, era: Era, version: str
) -> None:
    assert (await seen_in("none", server, era)).version == version


async def test_a_state_without_a_question_is_sent_on(server: Serving) -> None:
    found = await seen_in("state-only-twice", server)
    assert found.got == "result"
    assert found.says == "done"
    assert found.requests == 3
    assert found.bills is None


def request(method: str, **params: Any) -> Request:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return Request("POST", PATH, {}, body)


def test_a_task_has_its_messages_in_polls_and_a_question_that_is_shown_twice_counts_once() -> None:
    proxy = Proxy("", Break("cut", 3))
    asks: dict[str, Any] = {
        key: {"status": "input_required", "inputRequests": {key: {}}} for key in ("place", "units")
    }
    done: dict[str, Any] = {"status": "completed", "result": {}}
    proxy.takes(request(CALL, name=TOOL))
    responses: list[tuple[str, dict[str, Any]]] = [
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
            effects = count(tuple(effects_after(server.ledger, 0).values()))
    assert effects == {"audit": len(broken), "bill": len(broken)}
