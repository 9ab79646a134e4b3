"""The table of sentences and mutants, what is kept of the suite's runs on them, and the page.

The correct server must be correct. None of it needs npm; the suite is run by `make suite-score`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from scoreboard.conformance.report import SUITE
from scoreboard.conformance.score import table
from scoreboard.conformance.score.correct import META, PREFIX, VERSION, Fixture, Json
from scoreboard.conformance.score.table import PROGRAMS, broken, code_of, read, requirements

pytestmark = pytest.mark.anyio

YES: Json = {"confirm": {"action": "accept", "content": {"ok": True}}}
EFFECT = PREFIX + "effect"


class Caller:
    """Sends requests to a server in this process."""

    def __init__(self, server: Fixture) -> None:
        transport = httpx2.ASGITransport(app=server.app())
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://localhost")

    async def send(
        self, method: str, *, user: str = "alice", modes: Json | None = None, **params: Any
    ) -> Json:
        declared: Json = {
            "elicitation": {"form": {}, "url": {}} if modes is None else modes,
            "roots": {},
        }
        meta = {META + "protocolVersion": VERSION, META + "clientCapabilities": declared}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta}}
        headers = {"mcp-protocol-version": VERSION, "mcp-method": method, "authorization": user}
        if "name" in params:
            headers["mcp-name"] = params["name"]
        return (await self.http.post("/mcp", json=body, headers=headers)).json()

    async def call(self, tool: str = EFFECT, *, order: str = "1", **params: Any) -> Json:
        return await self.send("tools/call", name=tool, arguments={"order": order}, **params)

    async def state(self, tool: str = EFFECT, **params: Any) -> str:
        return (await self.call(tool, **params))["result"]["requestState"]


def test_every_sentence_has_a_mutant_a_reason_or_another_that_says_the_same() -> None:
    ids = [row.id for row in requirements()]
    assert len(ids) == len(set(ids))
    for row in requirements():
        assert sum(map(bool, (row.mutant, row.why, row.repeats))) == 1, row.id
        assert bool(row.harm) == bool(row.mutant), row.id
        assert not row.repeats or row.repeats in ids, row.id


@pytest.mark.parametrize("side", PROGRAMS)
def test_every_mutant_breaks_one_sentence_of_the_table(side: table.Side) -> None:
    named = [name for row in broken(side) for name in (row.mutant, row.other) if name]
    assert sorted(named) == sorted(PROGRAMS[side].keys() - {"correct"})


@pytest.mark.parametrize("side", PROGRAMS)
def test_the_kept_runs_are_of_this_code(side: table.Side) -> None:
    kept = {name: outcome.code for name, outcome in read().of(side).items()}
    assert kept == {name: code_of(side, name) for name in PROGRAMS[side]}


@pytest.mark.parametrize("page", table.PAGES, ids=lambda page: page.name)
def test_a_page_is_what_is_kept(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == table.renewed(text, read())


def test_each_check_of_the_scenarios_has_a_row_with_a_sentence_of_the_table() -> None:
    rows = table.SCENARIOS.with_name("sep-2322-conduct.yaml").read_text(encoding="utf-8")
    checks = set(re.findall(r"- check: (\S+)", rows))
    correct = read().proposed["correct"].checks | read().proposed_client["correct"].checks
    kept = {each for each, status in correct.items() if status != "INFO"}
    assert checks == kept - {"wire-schema-valid", "sep-2322-state-only-complete"}  # no sentences
    texts = {row.text for row in requirements()}
    assert {json.loads(text) for text in re.findall(r"text: (.*)", rows)} <= texts


def test_the_correct_server_and_client_pass_the_scenarios() -> None:
    assert set(read().proposed["correct"].checks.values()) <= {"SUCCESS", "INFO"}
    assert set(read().proposed_client["correct"].checks.values()) == {"SUCCESS"}


def test_each_row_of_the_scenarios_names_a_program_that_its_check_finds() -> None:
    rows = table.SCENARIOS.with_name("sep-2322-conduct.yaml").read_text(encoding="utf-8")
    for check, name in re.findall(r"- check: (\S+) # (\S+)", rows):
        side = "proposed client" if name in PROGRAMS["client"] else "proposed"
        assert check in read().found_by(side, name), f"{check} does not find {name}"


def test_the_scenarios_are_for_the_version_of_the_suite_that_is_run() -> None:
    assert f"VERSION = '{SUITE}'" in table.SCENARIOS.with_name("published.mjs").read_text(
        encoding="utf-8"
    )


async def test_the_correct_server_has_its_effect_once() -> None:
    caller = Caller(Fixture())
    state = await caller.state()
    first = await caller.call(inputResponses=YES, requestState=state)
    assert first["result"]["structuredContent"] == {"effects": 1}
    assert await caller.call(inputResponses=YES, requestState=state) == first


async def test_the_correct_server_refuses_a_state_of_anything_else() -> None:
    caller = Caller(Fixture())
    state = await caller.state()
    payload, mac = state.split(".")
    flipped = payload[:20] + ("A" if payload[20] != "A" else "B") + payload[21:]
    for answer in (
        await caller.call(inputResponses=YES, requestState=f"{flipped}.{mac}"),
        await caller.call(inputResponses=YES, requestState=state, order="2"),
        await caller.call(inputResponses=YES, requestState=state, user="bob"),
        await caller.call(PREFIX + "other_effect", inputResponses=YES, requestState=state),
    ):
        assert answer["error"]["code"] == -32602


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_the_correct_server_does_nothing_without_consent(action: str) -> None:
    caller = Caller(Fixture())
    no = {"confirm": {"action": action, "content": {"ok": True}}}
    result = (await caller.call(inputResponses=no, requestState=await caller.state()))["result"]
    assert result["content"][0]["text"] == f"The user chose to {action}."
    count = (await caller.call(PREFIX + "effects"))["result"]
    assert count["structuredContent"] == {"effects": 0}
