"""The invariant: every option shows its user the same, and has the effects written here.

The SDK's own client of both eras calls every option for a location with one question and for one
with two. `pytest tests/test_invariant.py --proposal my_option.py` calls a file of your own, too: it
has to show the same and to bill once, and the test prints how often it audits.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext

from mrtr_options.sdk.testing import served
from mrtr_options.tool.catalogue import Option, all_options, load, option_at
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger, SqliteLedger, count
from tests.bounds import KEY, SECONDS

Column = tuple[Literal["modern", "legacy"], Literal["Tokyo", "Springfield"]]
"""The client's era, and the location."""

Treatment = Literal["asked", "assumed", "refused"]


@dataclass(frozen=True)
class Cell:
    """What one call does.

    Attributes:
        audits: How often it audits.
        bills: How often it bills.
        user: Whether the user is asked. If not, the units are assumed, or a location with several
            places is refused.
    """

    audits: int
    bills: int
    user: Treatment


COLUMNS: tuple[Column, ...] = (
    ("modern", "Tokyo"),
    ("modern", "Springfield"),
    ("legacy", "Tokyo"),
    ("legacy", "Springfield"),
)

# In A to E and M the audit stands above the questions, and each round runs it again. G audits after
# the last answer. An old client's call is one request, which the server holds open while it asks.
ROWS: dict[str, tuple[Cell, Cell, Cell, Cell]] = {
    "A": (Cell(2, 1, "asked"), Cell(3, 1, "asked"), Cell(2, 1, "asked"), Cell(3, 1, "asked")),
    "B": (Cell(2, 1, "asked"), Cell(3, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "asked")),
    "C": (Cell(2, 1, "asked"), Cell(3, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "asked")),
    "D": (Cell(2, 1, "asked"), Cell(3, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "asked")),
    "E": (Cell(2, 1, "asked"), Cell(3, 1, "asked"), Cell(1, 1, "assumed"), Cell(1, 0, "refused")),
    "F": (Cell(1, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "assumed"), Cell(1, 0, "refused")),
    "G": (Cell(1, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "assumed"), Cell(0, 0, "refused")),
    "H": (Cell(1, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "assumed"), Cell(1, 0, "refused")),
    "I": (Cell(1, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "asked")),
    "J": (Cell(1, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "assumed"), Cell(1, 0, "refused")),
    "K": (Cell(1, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "assumed"), Cell(1, 0, "refused")),
    "L": (Cell(1, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "assumed"), Cell(1, 0, "refused")),
    "M": (Cell(2, 1, "asked"), Cell(3, 1, "asked"), Cell(1, 1, "asked"), Cell(1, 1, "asked")),
}
"""The effects of each option in each column, by its letter."""

UNITS = ["metric", "imperial"]
PLACES = ["Springfield, Illinois", "Springfield, Massachusetts", "Springfield, Missouri"]
QUESTIONS = {  # (message, choices) of the questions, in order; the user takes the first choice
    "Tokyo": [("Which units for Tokyo, Japan?", UNITS)],
    "Springfield": [
        ("Which Springfield?", PLACES),
        ("Which units for Springfield, Illinois?", UNITS),
    ],
}
REPORTS = {
    "Tokyo": "Tokyo, Japan: 19 °C, clear.",
    "Springfield": "Springfield, Illinois: 22 °C, partly cloudy.",
}
ASSUMED = " (metric assumed: this client cannot be asked)"
REFUSED = f"error: 'Springfield' is ambiguous. Call again with one of: {'; '.join(PLACES)}."


@dataclass(frozen=True)
class Seen:
    """The questions and the text that one call shows its user, and what it does."""

    questions: list[tuple[str, list[str]]]
    text: str
    cell: Cell


def meant(location: str, cell: Cell) -> Seen:
    """Return what a call with these effects shows its user."""
    match cell.user:
        case "asked":
            return Seen(QUESTIONS[location], REPORTS[location], cell)
        case "assumed":
            return Seen([], REPORTS[location] + ASSUMED, cell)
        case "refused":
            return Seen([], REFUSED, cell)


async def call(option: Option, column: Column, folder: Path) -> Seen:
    """Call an option, and answer every question with its first choice."""
    era, location = column
    questions: list[tuple[str, list[str]]] = []

    async def user(context: ClientRequestContext, params: Any) -> types.ElicitResult:
        ((name, schema),) = params.requested_schema["properties"].items()
        questions.append((params.message, schema["enum"]))
        return types.ElicitResult(action="accept", content={name: schema["enum"][0]})

    ledger = SqliteLedger(folder / "ledger.sqlite")
    server = load(option.path, Settings(ledger, keys=[KEY.encode()]))
    mode = "legacy" if era == "legacy" else "2026-07-28"
    with anyio.fail_after(SECONDS):
        async with Client(server, mode=mode, elicitation_callback=user) as client:
            result = await client.call_tool("weather", {"location": location})
    text = "".join(block.text for block in result.content if block.type == "text")
    done = count(await ledger.effects())
    treated: Treatment = "assumed"
    if questions:
        treated = "asked"
    elif result.is_error:
        treated = "refused"
    cell = Cell(done["audit"], done["bill"], treated)
    return Seen(questions, f"error: {text}" if result.is_error else text, cell)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play every option, or the proposal, in every column."""
    if "column" in metafunc.fixturenames:
        metafunc.parametrize("column", COLUMNS, ids="-".join)
    if "option" in metafunc.fixturenames:
        options = all_options()
        metafunc.parametrize("option", options.values(), ids=options)
    if "proposal" in metafunc.fixturenames:
        file: Path | None = metafunc.config.getoption("--proposal")
        metafunc.parametrize("proposal", [] if file is None else [option_at(file)], ids=[])


@pytest.mark.anyio
async def test_an_option_shows_the_same_and_has_these_effects(
    option: Option, column: Column, tmp_path: Path
) -> None:
    seen = await call(option, column, tmp_path)
    where = f"{option.path.name}, {' client, '.join(column)}"
    assert option.letter in ROWS, f"add a row {option.letter!r} to ROWS; {where}: {seen.cell}"
    expected = meant(column[1], ROWS[option.letter][COLUMNS.index(column)])
    assert seen == expected, f"{where}:\n expected {expected}\n came     {seen}"


@pytest.mark.anyio
async def test_a_proposal_shows_the_same_and_bills_once(
    proposal: Option,
    column: Column,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MRTR_LEDGER", str(tmp_path / "ledger.sqlite"))  # it may read them
    monkeypatch.setenv("MRTR_STATE_KEYS", KEY)
    seen = await call(proposal, column, tmp_path)
    where = f"{proposal.path.name}, {' client, '.join(column)}"
    with capsys.disabled():
        print(f"\n{where}: {seen.cell}")
    assert column[0] == "legacy" or seen.cell.user == "asked", f"{where}: the user was not asked"
    bills = 0 if seen.cell.user == "refused" else 1
    assert seen.cell.bills == bills, f"{where}: meant to bill {bills} times"
    expected = meant(column[1], seen.cell)
    if seen.cell.user == "refused":
        expected = replace(expected, text=seen.text)  # an author may choose the words
    assert seen == expected, f"{where}:\n expected {expected}\n came     {seen}"


# --- on the wire --------------------------------------------------------------------------------

HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "weather",
}
CLIENT: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
TOKYO = {"name": "weather", "arguments": {"location": "Tokyo"}, "_meta": CLIENT}
QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which units for Tokyo, Japan?",
        "requestedSchema": {
            "type": "object",
            "properties": {"units": {"enum": UNITS, "title": "Units", "type": "string"}},
            "required": ["units"],
        },
    },
}


@pytest.mark.anyio
async def test_a_question_is_a_result_and_its_answer_comes_in_a_new_request(
    option: Option,
) -> None:
    server = load(option.path, Settings(MemoryLedger()))
    async with served(server) as url, httpx2.AsyncClient(headers=HEADERS) as http:

        async def post(number: int, **more: Any) -> Any:
            request = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
            response = await http.post(url, json=request | {"params": TOKYO | more})
            return response.json()["result"]

        asked = await post(1)
        assert asked["resultType"] == "input_required"
        ((key, question),) = asked["inputRequests"].items()  # the key is the server's choice
        assert question == QUESTION
        answer = {key: {"action": "accept", "content": {"units": "metric"}}}
        told = await post(2, inputResponses=answer, requestState=asked["requestState"])
    assert told["resultType"] == "complete"
    assert told["content"] == [{"type": "text", "text": REPORTS["Tokyo"]}]
