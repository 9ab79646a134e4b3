"""The invariant: every option shows its user the same, and has the effects written here.

The SDK's own client of both eras calls every option for a location with one question and for one
with two. `pytest tests/test_invariant.py --proposal my_option.py` adds an option of your own: it
has to show the same and to bill once, and the test prints how often it audits.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext

from mrtr_options.tool.catalogue import Option, all_options, load
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import SqliteLedger, count
from tests.bounds import KEY, SECONDS
from tests.fixtures import proposal_of

EFFECTS = {
    # The audits and bills of one call. An old client is asked; otherwise the units are assumed, or
    # a location with several places is refused.
    #         modern                legacy
    #     Tokyo  Springfield    Tokyo          Springfield
    "A": ("2/1", "3/1", "2/1 asked", "3/1 asked"),  # E, which also asks old clients: audits repeat
    "B": ("2/1", "3/1", "1/1 asked", "1/1 asked"),  # the handler runs again in each modern round
    "C": ("2/1", "3/1", "1/1 asked", "1/1 asked"),
    "D": ("2/1", "3/1", "1/1 asked", "1/1 asked"),
    "E": ("2/1", "3/1", "1/1 assumed", "1/0 refused"),  # the audit stands above the questions
    "F": ("1/1", "1/1", "1/1 assumed", "1/0 refused"),
    "G": ("1/1", "1/1", "1/1 assumed", "0/0 refused"),  # no audit before the questions
    "H": ("1/1", "1/1", "1/1 assumed", "1/0 refused"),
    "I": ("1/1", "1/1", "1/1 asked", "1/1 asked"),
    "J": ("1/1", "1/1", "1/1 assumed", "1/0 refused"),
    "K": ("1/1", "1/1", "1/1 assumed", "1/0 refused"),
    "L": ("1/1", "1/1", "1/1 assumed", "1/0 refused"),
    "M": ("2/1", "3/1", "1/1 asked", "1/1 asked"),  # B with answers by position
}
COLUMNS = [(era, place) for era in ("modern", "legacy") for place in ("Tokyo", "Springfield")]

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


@dataclass
class Seen:
    """The questions and the text that one call shows its user, and its effects as "audit/bill"."""

    questions: list[tuple[str, list[str]]]
    text: str
    effects: str

    @property
    def how(self) -> str:
        """The treatment of the client: "asked", "refused", or its answer "assumed"."""
        if self.questions:
            return "asked"
        return "refused" if self.text.startswith("error") else "assumed"


async def call(option: Option, column: tuple[str, str], folder: Path) -> Seen:
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
    effects = f"{done['audit']}/{done['bill']}"
    return Seen(questions, f"error: {text}" if result.is_error else text, effects)


def meant(location: str, entry: str) -> Seen:
    """Return what a call should show and do, by its entry in the table."""
    effects, _, how = entry.partition(" ")
    if how == "assumed":
        return Seen([], REPORTS[location] + ASSUMED, effects)
    if how == "refused":
        return Seen([], REFUSED, effects)
    return Seen(QUESTIONS[location], REPORTS[location], effects)


def _name_of(option: Option) -> str:
    return option.path.stem if option.is_foreign else option.letter


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play every column on every option and on the proposal."""
    metafunc.parametrize("column", COLUMNS, ids="-".join)
    if "option" in metafunc.fixturenames:
        proposal = proposal_of(metafunc.config)
        options = [*all_options().values(), *([proposal] if proposal else [])]
        metafunc.parametrize("option", options, ids=_name_of)


@pytest.mark.anyio
async def test_an_option_shows_and_does_what_is_written_above(
    option: Option,
    column: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MRTR_LEDGER", str(tmp_path / "ledger.sqlite"))  # a proposal may read it
    monkeypatch.setenv("MRTR_STATE_KEYS", KEY)
    where = f"{option.path.name}, {column[0]} client, {column[1]}"
    seen = await call(option, column, tmp_path)
    entry = f"{seen.effects} {seen.how}"
    if option.is_foreign:
        with capsys.disabled():
            print(f"\n{where}: audit/bill {entry}")
        assert column[0] == "legacy" or seen.how == "asked", f"{where}: the user was not asked"
        bills = "0" if seen.how == "refused" else "1"
        assert seen.effects.endswith(f"/{bills}"), f"{where}: meant to bill {bills} times"
    else:
        missing = f'add "{option.letter}" to EFFECTS in tests/test_invariant.py; here: "{entry}"'
        assert option.letter in EFFECTS, missing
        entry = EFFECTS[option.letter][COLUMNS.index(column)]
    expected = meant(column[1], entry)
    if option.is_foreign and seen.how == "refused":
        expected.text = seen.text  # an author may choose the words of a refusal
    assert seen == expected, f"{where}:\n expected {expected}\n came     {seen}"


@pytest.mark.anyio
async def test_all_options_show_their_users_the_same(
    column: tuple[str, str], tmp_path: Path
) -> None:
    shown: dict[str, set[str]] = {}
    for option in all_options().values():
        seen = await call(option, column, tmp_path)
        shown.setdefault(seen.how, set()).add(f"{seen.questions} {seen.text}")
    assert [len(texts) for texts in shown.values()] == [1] * len(shown), shown
