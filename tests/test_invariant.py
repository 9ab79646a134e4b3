"""The same tool in every option: same texts, same questions, and exactly the guaranteed effects.

Every option file is held against one of two reference options: E, or A for the options that ask old
clients too. The counts stand written out here, so that an option's own guarantees cannot excuse it;
only an option that has no row (a new letter, a stranger's `--proposal`) is taken at its word.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import anyio
import mcp_types as types
import pytest
from mcp import Client, ClientSession, MCPError
from mcp.client.session import ClientRequestContext

from mrtr_options.bench.client import MODES, Answerer, agreeable
from mrtr_options.bench.history import ERAS, Era
from mrtr_options.tool.catalogue import Option, all_options, load, option_named
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import REPORTS
from tests.bounds import SECONDS
from tests.rounds import (
    Seen,
    accepted,
    answer,
    call,
    connected,
    counts,
    forms,
    send,
    settings,
    text_of,
)

pytestmark = pytest.mark.anyio


class Row(NamedTuple):
    """The part of an option's guarantees that a clean call shows."""

    modern_tokyo: str
    modern_springfield: str
    legacy_tokyo: str
    legacy_springfield: str
    asks_legacy: bool


TABLE = {  # audit/bill: modern Tokyo, modern Springfield, legacy Tokyo, legacy Springfield
    "A": Row("2/1", "3/1", "2/1", "3/1", asks_legacy=True),
    "B": Row("2/1", "3/1", "1/1", "1/1", asks_legacy=True),
    "C": Row("2/1", "3/1", "1/1", "1/1", asks_legacy=True),
    "D": Row("2/1", "3/1", "1/1", "1/1", asks_legacy=True),
    "E": Row("2/1", "3/1", "1/1", "1/0", asks_legacy=False),
    "F": Row("1/1", "1/1", "1/1", "1/0", asks_legacy=False),
    "G": Row("1/1", "1/1", "1/1", "0/0", asks_legacy=False),
    "H": Row("1/1", "1/1", "1/1", "1/0", asks_legacy=False),
    "I": Row("1/1", "1/1", "1/1", "1/1", asks_legacy=True),
    "J": Row("1/1", "1/1", "1/1", "1/0", asks_legacy=False),
    "K": Row("1/1", "1/1", "1/1", "1/0", asks_legacy=False),
    "L": Row("1/1", "1/1", "1/1", "1/0", asks_legacy=False),
}
UNASKED = {letter: {"Tokyo": "1/1", "Springfield": "1/0"} for letter in TABLE}
UNASKED["G"]["Springfield"] = UNASKED["I"]["Springfield"] = "0/0"

HIGH_TIER = "I"
"""The options whose refusals are worded by the SDK's high tier, which departs from the contract."""

PREFIX = "Error executing tool weather: "
"""What that tier puts before the text of every error."""

LOCATIONS = ("Tokyo", "Springfield")
OTHER_SPELLINGS = ("tokyo, japan", " springfield ", "Springfield, Missouri", "Portland")
KEYS = ("place", "units")
ASSUMED = "Tokyo, Japan: 19 °C, clear. (metric assumed: this client cannot be asked)"

era_and_location = pytest.mark.parametrize(
    ("era", "location"), [(era, location) for era in ERAS for location in LOCATIONS]
)
both_eras = pytest.mark.parametrize("era", ERAS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every option there is, and the proposal."""
    if "option" not in metafunc.fixturenames:
        return
    options = list(all_options().values())
    proposal = metafunc.config.getoption("--proposal")
    if proposal is not None:
        options.append(Option("?", "proposal", proposal))
    metafunc.parametrize(
        "option",
        options,
        ids=[option.name if option.letter == "?" else option.letter for option in options],
    )


def row_of(option: Option) -> Row | None:
    own = option.guarantees
    return own and Row(*(getattr(own, name) for name in Row._fields))


def guaranteed(option: Option) -> Row | None:
    """The option's row, or else its own word, or None if it says nothing."""
    return TABLE.get(option.letter) or row_of(option)


async def reference(option: Option, era: Era) -> Option:
    """The option that this one must not be told from by a client of this era."""
    guarantees = guaranteed(option)
    if era == "modern":
        return option_named("E")
    if guarantees is None:
        asks_legacy = bool((await call(option, "legacy", "Tokyo")).questions)
    else:
        asks_legacy = guarantees.asks_legacy
    return option_named("A" if asks_legacy else "E")


def as_seen(seen: Seen) -> Seen:
    """A call without its effects and without what the high tier puts before an error."""
    return seen._replace(text=seen.text and seen.text.removeprefix(PREFIX), effects="")


def bills(seen: Seen) -> int:
    """How often a call was billed."""
    return int(seen.effects.partition("/")[2])


# --- clean calls --------------------------------------------------------------------------------


def test_every_option_that_ships_has_a_row() -> None:
    assert list(TABLE) == list(all_options())


@pytest.mark.parametrize("letter", TABLE)
def test_a_file_guarantees_what_the_table_says(letter: str) -> None:
    assert row_of(option_named(letter)) == TABLE[letter]


async def test_the_reference_holds_the_whole_conversation() -> None:
    """Everything else is compared with it, so its own words stand here."""
    expected: tuple[tuple[str, Era, int], ...] = (("E", "modern", 3), ("A", "legacy", 1))
    for letter, era, rounds in expected:
        seen = await call(option_named(letter), era, "Springfield")
        place, units = seen.questions
        assert place[0] == "Which Springfield?"
        assert place[1]["properties"]["place"]["enum"] == [
            label for label in REPORTS if label.startswith("Springfield")
        ]
        assert units[0] == "Which units for Springfield, Illinois?"
        assert units[1]["properties"]["units"]["enum"] == ["metric", "imperial"]
        assert as_seen(seen)[:3] == ("Springfield, Illinois: 22 °C, partly cloudy.", False, None)
        assert seen.rounds == rounds


@era_and_location
async def test_a_clean_call_cannot_be_told_from_the_reference(
    option: Option, era: Era, location: str
) -> None:
    expected = await call(await reference(option, era), era, location)
    assert as_seen(await call(option, era, location)) == as_seen(expected)


@era_and_location
async def test_a_clean_call_has_the_guaranteed_effects(option: Option, era: Era, location: str) -> None:
    seen = await call(option, era, location)
    guarantees = guaranteed(option)
    if guarantees is None:
        assert bills(seen) <= 1
        assert int(seen.effects.partition("/")[0]) <= seen.rounds
    else:
        assert seen.effects == getattr(guarantees, f"{era}_{location.lower()}")


@both_eras
@pytest.mark.parametrize("location", OTHER_SPELLINGS)
async def test_a_place_may_be_spelled_otherwise(option: Option, era: Era, location: str) -> None:
    expected = await call(await reference(option, era), era, location)
    assert as_seen(await call(option, era, location)) == as_seen(expected)


@both_eras
async def test_an_unknown_place_is_an_error_result(option: Option, era: Era) -> None:
    seen = await call(option, era, "Atlantis")
    assert as_seen(seen) == ("Unknown location: 'Atlantis'.", True, None, [], 1, "")
    assert bills(seen) == 0


# --- answers ------------------------------------------------------------------------------------


def answering(key: str, given: types.ElicitResult) -> Answerer:
    """A user who is agreeable but for the question with this key."""

    async def user(form: types.ElicitRequestFormParams) -> types.ElicitResult:
        return given if key in form.requested_schema["properties"] else await agreeable(form)

    return user


@both_eras
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "given",
    [
        types.ElicitResult(action="decline"),
        types.ElicitResult(action="cancel"),
        types.ElicitResult(
            action="decline", content={"place": "Springfield, Illinois", "units": "metric"}
        ),
    ],
    ids=["decline", "cancel", "decline-with-content"],
)
async def test_a_refused_question_ends_the_call_without_a_bill(
    option: Option, era: Era, key: str, given: types.ElicitResult
) -> None:
    like = await reference(option, era)
    expected = await call(like, era, "Springfield", answering(key, given))
    seen = await call(option, era, "Springfield", answering(key, given))
    assert as_seen(seen) == as_seen(expected)
    assert bills(seen) == 0
    if seen.questions:
        how = "declined" if given.action == "decline" else "cancelled"
        assert seen.text == f"No lookup was made: the question {key!r} was {how}."
        assert not seen.is_error


@both_eras
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "given",
    [
        accepted(place="Springfield, Ohio", units="kelvin"),
        accepted(),
        types.ElicitResult(action="accept"),
    ],
    ids=["not-a-choice", "empty", "no-content"],
)
async def test_an_answer_that_does_not_fit_is_refused_without_a_bill(
    option: Option, era: Era, key: str, given: types.ElicitResult
) -> None:
    seen = await call(option, era, "Springfield", answering(key, given))
    assert bills(seen) == 0
    if not seen.questions:
        return
    if option.letter in HIGH_TIER:
        assert (seen.code, seen.is_error) == (None, True)
        assert f":which_{key}'" in (seen.text or "")
    else:
        assert seen.code == types.INVALID_PARAMS
        assert repr(key) in (seen.text or "")


@pytest.mark.parametrize("location", LOCATIONS)
async def test_a_bad_answer_can_be_corrected_with_the_same_state(option: Option, location: str) -> None:
    bad: list[types.InputResponse] = [
        accepted(place="Springfield, Ohio", units="kelvin"),
        types.ListRootsResult(roots=[]),
    ]
    run_with = settings()
    async with connected(load(option.path, run_with)) as client:
        response = await send(client, location)
        while isinstance(response, types.InputRequiredResult):
            (key,) = forms(response)
            for given in bad:
                if option.letter in HIGH_TIER:
                    refused = await send(client, location, response, {key: given})
                    assert isinstance(refused, types.CallToolResult)
                    assert refused.is_error
                    assert repr(key) in text_of(refused)
                    continue
                with pytest.raises(MCPError, match=repr(key)) as refusal:
                    await send(client, location, response, {key: given})
                assert refusal.value.code == types.INVALID_PARAMS
            assert (await counts(run_with)).endswith("/0")
            response = await answer(client, location, response)
        expected = await call(option_named("E"), "modern", location)
        assert text_of(response) == expected.text
    assert (await counts(run_with)).endswith("/1")


@pytest.mark.parametrize("location", LOCATIONS)
async def test_a_missing_answer_is_asked_for_again(option: Option, location: str) -> None:
    run_with = settings()
    async with connected(load(option.path, run_with)) as client:
        response = await send(client, location)
        while isinstance(response, types.InputRequiredResult):
            again = await send(client, location, response)
            assert forms(again) == forms(response)
            response = await send(client, location, again, {})
            assert forms(response) == forms(again)
            response = await answer(client, location, response)
        expected = await call(option_named("E"), "modern", location)
        assert text_of(response) == expected.text
    assert (await counts(run_with)).endswith("/1")


async def test_answers_nobody_asked_for_are_ignored(option: Option) -> None:
    run_with = settings()
    seen: list[dict[str, types.ElicitRequestFormParams]] = []
    async with connected(load(option.path, run_with)) as client:
        response = await send(client, "Springfield", None, {"extra": accepted(units="metric")})
        while isinstance(response, types.InputRequiredResult):
            seen.append(forms(response))
            extra: types.InputResponses = {
                "extra": accepted(place="Springfield, Ohio"),
                "location": accepted(units="kelvin"),
            }
            response = await answer(client, "Springfield", response, extra)
        expected = await call(option_named("E"), "modern", "Springfield")
        assert text_of(response) == expected.text
    asked = [(form.message, form.requested_schema) for questions in seen for form in questions.values()]
    assert asked == expected.questions
    assert (await counts(run_with)).endswith("/1")


# --- arguments ----------------------------------------------------------------------------------


@both_eras
@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        (TOOL, None, "location"),
        (TOOL, {}, "location"),
        (TOOL, {"location": 5}, "location"),
        (TOOL, {"location": None}, "location"),
        (TOOL, {"location": ""}, "location"),
        (TOOL, {"location": "x" * 101}, "location"),
        (TOOL, {"location": "Tokyo", "units": "metric"}, "units"),
        ("climate", {"location": "Tokyo"}, "climate"),
    ],
    ids=["none", "missing", "number", "null", "empty", "long", "extra", "unknown-tool"],
)
async def test_a_call_that_does_not_fit_the_schema_is_refused(
    option: Option, era: Era, tool: str, arguments: dict[str, Any] | None, named: str
) -> None:
    run_with = settings()
    async with connected(load(option.path, run_with), era) as client:
        if option.letter in HIGH_TIER:
            result = await client.session.call_tool(tool, arguments, allow_input_required=True)
            if named == "units" and era == "modern":  # that tier takes no notice of what is too much
                assert next(iter(forms(result))).endswith(":which_units")
            elif named != "units":
                assert isinstance(result, types.CallToolResult)
                assert result.is_error
                assert named in text_of(result)
            return
        with pytest.raises(MCPError, match=named) as refusal:
            await client.session.call_tool(tool, arguments, allow_input_required=True)
    assert refusal.value.code == types.INVALID_PARAMS
    assert await counts(run_with) == "0/0"


# --- clients that cannot be asked ---------------------------------------------------------------


@era_and_location
async def test_a_client_without_elicitation_is_never_asked(
    option: Option, era: Era, location: str
) -> None:
    seen = await call(option, era, location, answer=None)
    _check_unasked(option, location, seen.text, seen.is_error, seen.effects)
    assert seen.rounds == 1


@era_and_location
async def test_a_client_that_takes_urls_only_is_never_asked_a_form(
    option: Option, era: Era, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls_only = types.ClientCapabilities(
        elicitation=types.ElicitationCapability(url=types.UrlElicitationCapability())
    )

    def declared(session: ClientSession, version: str) -> types.ClientCapabilities:
        return urls_only

    # The SDK's client declares form mode along with any callback; it has no public way not to.
    monkeypatch.setattr(ClientSession, "_build_capabilities", declared)

    async def never(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ErrorData:
        raise AssertionError("was asked")

    run_with = settings()
    server = load(option.path, run_with)
    with anyio.fail_after(SECONDS):
        async with Client(server, mode=MODES[era], elicitation_callback=never) as client:
            result = await send(client, location)
    assert isinstance(result, types.CallToolResult)
    _check_unasked(option, location, text_of(result), bool(result.is_error), await counts(run_with))


def _check_unasked(
    option: Option, location: str, text: str | None, is_error: bool, effects: str
) -> None:
    if location == "Tokyo":
        assert (text, is_error) == (ASSUMED, False)
    else:
        assert text is not None
        assert text.startswith(PREFIX if option.letter in HIGH_TIER else "'")
        assert text.removeprefix(PREFIX).startswith(
            "'Springfield' is ambiguous. Call again with one of:"
        )
        assert is_error
    if option.letter in UNASKED:
        assert effects == UNASKED[option.letter][location]
    else:
        assert effects.endswith("/1" if location == "Tokyo" else "/0")
