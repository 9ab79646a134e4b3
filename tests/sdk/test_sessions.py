"""Tests of the sessions of old clients in `serve`: their number and their lifetime."""

from typing import Any

import anyio
import httpx2
import pytest

from mrtr_options import sdk
from mrtr_options.sdk import serving
from mrtr_options.sdk.testing import served
from tests.bounds import SECONDS
from tests.restaurant import lowlevel, tool
from tests.sdk.fakes import ON_ASYNCIO, until

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


async def opened(http: httpx2.AsyncClient, url: str, **more: str) -> httpx2.Response:
    """Open a session, and return the response."""
    return await http.post(url, json=INITIALIZE, headers={**HEADERS, **more})


def user_of(ctx: sdk.Context) -> str:
    """Name a caller by a header, as behind a proxy that authenticates; KeyError without one."""
    assert ctx.request is not None
    return ctx.request.headers["user"]


KNOWS = sdk.Settings(principal=user_of)


async def test_a_session_belongs_to_the_caller_that_began_it() -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}
    with anyio.fail_after(SECONDS):
        async with (
            served(sdk.build_server("restaurant", tool(), settings=KNOWS)) as url,
            httpx2.AsyncClient() as http,
        ):
            session = (await opened(http, url, user="ann")).headers["mcp-session-id"]
            for user, knows in (("ann", True), ("bob", False), (None, False)):
                own = {} if user is None else {"user": user}
                headers = {**HEADERS, **own, "mcp-session-id": session}
                for body in (LIST, answer):
                    status = (await http.post(url, json=body, headers=headers)).status_code
                    assert (status != 404) == knows
                if not knows:
                    assert (await http.get(url, headers=headers)).status_code == 404


async def test_a_body_that_is_cut_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", serving.__name__)
    cut = "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-length: 9\r\n{}\r\n1"
    headers = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    with anyio.fail_after(SECONDS):
        async with served(lowlevel(tool())) as url:
            host = httpx2.URL(url).netloc.decode()
            for version in ("2025-11-25", "2026-07-28"):
                said = f"{headers}mcp-protocol-version: {version}\r\n"
                async with await anyio.connect_tcp("127.0.0.1", httpx2.URL(url).port or 0) as way:
                    await way.send(cut.format(serving.PATH, host, said).encode())
            await until(lambda: len(caplog.messages) == 2)
    assert {*caplog.messages} == {"a client left before its request was whole"}


async def test_one_session_more_than_there_may_be_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "MAX_SESSIONS", 2)
    with anyio.fail_after(SECONDS):
        async with served(lowlevel(tool())) as url, httpx2.AsyncClient() as http:
            statuses = [(await opened(http, url)).status_code for _ in range(3)]
    assert statuses == [200, 200, 503]


async def test_a_session_without_a_request_ends_after_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "SESSION_IDLE_SECONDS", 0.05)
    with anyio.fail_after(SECONDS):
        async with served(lowlevel(tool())) as url, httpx2.AsyncClient() as http:
            session = (await opened(http, url)).headers["mcp-session-id"]
            known = 200
            while known != 404:
                # Every request starts the lifetime again.
                await anyio.sleep(0.2)
                headers = {**HEADERS, "mcp-session-id": session}
                known = (await http.post(url, json=LIST, headers=headers)).status_code


async def test_sessions_are_bounded_and_timed_where_nothing_else_is_said() -> None:
    with serving.listen(0) as listener:
        app: Any = serving.web_server(lowlevel(tool()), listener).config.app
    (manager,) = {
        route.app.session_manager for route in app.routes if hasattr(route.app, "session_manager")
    }
    assert manager.max_sessions == serving.MAX_SESSIONS <= serving.MAX_CONNECTIONS
    assert manager.session_idle_timeout == serving.SESSION_IDLE_SECONDS <= 600
