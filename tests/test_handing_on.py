"""Tests of the style that hands rounds on, between two processes."""

import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import MCPError
from mcp_types import InputRequiredResult
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from examples.styles.handing_on import PROOF, HandingOn
from mrtr_options.review.bench.world.starting import kill_group
from mrtr_options.sdk.serving import MAX_BODY_BYTES
from mrtr_options.tool.weather import SqliteLedger, count
from scoreboard.servers.peers import comes_up, free_port, started
from tests.bounds import KEY
from tests.sending import answer, connected, send, text_of

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[1]
STYLE = "examples/styles/handing_on.py"
NAMES = ("one", "two")


@asynccontextmanager
async def fleet(folder: Path) -> AsyncGenerator[dict[str, Any]]:
    """Start two instances, and yield their URLs and processes, by name."""
    urls = {name: f"http://127.0.0.1:{free_port()}/mcp" for name in NAMES}
    shared = {
        "MRTR_STATE_KEYS": KEY,
        "MRTR_INSTANCES": ",".join(f"{name}={url}" for name, url in urls.items()),
    }
    async with AsyncExitStack() as stack:
        processes: dict[str, Any] = {}
        for name, url in urls.items():
            port = str(httpx2.URL(url).port)
            ledger = str(folder / "ledger.sqlite")
            command = [sys.executable, "-m", "mrtr_options", "serve", STYLE, "--http", port]
            own = {**shared, "MRTR_INSTANCE": name, "MRTR_LEDGER": ledger}
            run = started(command, ROOT, own, folder / name)
            processes[name] = await stack.enter_async_context(run)
        for name, url in urls.items():
            assert await comes_up(processes[name], url), (folder / name).read_text()
        yield {"urls": urls, "processes": processes}


@pytest.mark.slow
async def test_any_instance_takes_any_round_and_a_dead_owner_is_told(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        at = made["urls"]
        async with connected(at["one"]) as one, connected(at["two"]) as two:
            place = await send(one, "Springfield")
            units = await answer(two, "Springfield", place)  # failover: each round at another one
            assert isinstance(units, InputRequiredResult)
            assert (units.request_state or "").startswith("one~")
            first = await answer(
                two, "Springfield", units
            )  # to the wrong one, and again at its owner
            assert await answer(one, "Springfield", units) == first
            assert "Springfield" in text_of(first)
            assert count(await SqliteLedger(tmp_path / "ledger.sqlite").effects()) == {
                "audit": 1,
                "bill": 1,
            }
            asked = await send(one, "Tokyo")
            kill_group(made["processes"]["one"].pid)
            await made["processes"]["one"].wait()
            with pytest.raises(MCPError) as refused:
                await answer(two, "Tokyo", asked)
            assert refused.value.error.data["reason"] == "unknown_continuation"


@pytest.mark.parametrize(
    ("owner", "proof", "free", "expected"),
    [
        ("nowhere", None, 1, "unknown_continuation"),
        ("gone", None, 1, "unknown_continuation"),
        ("gone", None, 0, "too_many_continuations"),
        ("two", "1.00", 1, 403),
        ("two", 100, 1, 403),  # an old one
        ("gone", 0, 1, "taken here"),  # it has gone its one hop
        ("", None, 1, "taken here"),
        ("x" * MAX_BODY_BYTES, None, 1, 413),
    ],
)
async def test_a_round_goes_one_hop_which_only_an_instance_can_make(
    owner: str, proof: Any, free: int, expected: object
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert await Request(scope, receive).body() == body
        await PlainTextResponse("taken here")(scope, receive, send)

    table = {"gone": f"http://127.0.0.1:{free_port()}/mcp"}
    handing = HandingOn(app, "two", table.get, [KEY.encode()], anyio.Semaphore(free))
    state = f"{owner}~s1.x" if owner else "s1.x"
    body = json.dumps({"id": 7, "params": {"requestState": state}}).encode()
    if isinstance(proof, int):
        at = f"{time.time() - proof:.0f}"
        proof = f"{at}.{handing.digest(KEY.encode(), at, body)}"
    headers = {} if proof is None else {PROOF: proof}
    transport = httpx2.ASGITransport(app=handing)
    async with httpx2.AsyncClient(transport=transport, base_url="http://two") as http:
        got = await http.post("/mcp", content=body, headers=headers)
    if isinstance(expected, int):
        assert got.status_code == expected
    elif expected == "taken here":
        assert got.text == expected
    else:
        assert (got.json()["id"], got.json()["error"]["data"]["reason"]) == (7, expected)
