"""Cases of odd arguments: every place, locations that are none, and hostile ones."""

from __future__ import annotations

import itertools
from typing import Any, Literal

from mrtr_options.review.bench.messages import Era
from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.steps import ListTools, Send, Step, WholeCall
from mrtr_options.review.check.calls import case, choices_of, in_turn, rounds, units, user_in_turn
from mrtr_options.review.judge.contract.content import UNITS
from mrtr_options.tool.weather import REPORTS


def places_case() -> Scenario:
    """Take every place by its name and its city, every choice, both units, in several spellings."""
    who: list[Caller] = []
    steps: list[Step] = []

    def clean(location: str, chosen: str, unit: str) -> None:
        who.append(Caller(location))
        steps.extend(rounds(len(who), who[-1], chosen, unit))

    for label, unit in itertools.product(REPORTS, UNITS):
        clean(label, "", unit)
        clean(label.partition(",")[0], label, unit)
    spelled = ("  tokyo ", "Tokyo\n", "\tLisbon", "Springfield\r\n", "LISBON", "nairobi, KENYA ")
    more = (" sPRINGFIELD", "portland  ", "PORTLAND", "REYKJAVIK", "\fTokyo\v", "\v springfield\f")
    for location in (*spelled, *more):
        for chosen in choices_of(location):
            clean(location, chosen, "imperial")
    return case("every-place", "Every place, every choice, both units.", who, steps)


NOT_PLACES = (
    "Atlantis",
    "x",
    "Tokyo, Illinois",
    "Springfield, Japan",
    "Spring",
    "Tokyo,Japan",
    "Springfield, ",
    "Illinois",
    ",",
    " ",
    "\u2603" * 100,
    "\U0001f326" * 100,
    "S" * 100,
    "To\u200bkyo",
    "%s{0}",
    "T_kyo",
    "Tok%",
    "T.kyo",
    "*",
    "'; DROP TABLE effects; --",
)


HOSTILE = (
    # They mean something to a parser of options, a shell, a template, a path, a query, or a regular
    # expression.
    "-Tokyo",
    "--help",
    "-",
    "--",
    "@/etc/hosts",
    "$(id)",
    "`id`",
    "Tokyo; id",
    "| cat",
    "${HOME}",
    "%s%n%d",
    "%(place)s",
    "{0.__class__}",
    "{{7*7}}",
    "../../etc/hosts",
    "Tokyo' OR '1'='1",
    '"',
    "(a+)+$",
    "[",
    "(",
    "\\",
    "^",
    "Tokyo|Lisbon",
    "T[o]kyo",
    "(?i)tokyo",
    "<b>Tokyo</b>",
    # Long words whose last character does not fit: some regular expressions take for ever.
    "a" * 40 + "!",
    "A" * 40 + "!",
    "1" * 40 + "!",
    "aA" * 20 + "!",
    "a b " * 12 + "!",
    "Springfield" * 4 + "!",
    "Springfield, " * 4 + "!",
    "Tokyo" + " " * 60 + "!",
    "," * 60 + "!",
    # Some code ends texts at such a character, or counts characters that it cannot show.
    "Tokyo\0",
    "\0",
    "To\0kyo",
    "\x1b[2J",
    "Tokyo\x7f",
    "\u202eoykoT",
    "\ufeffTokyo",
    "NaN",
)
"""Locations that are no places, and that mean something to code that a careless server calls."""


PERHAPS_PLACES = (
    "\uff34okyo",
    "\u00a0Tokyo\u00a0",
    "TOKYO\t",
    "T\u014dky\u014d",
    "\u00a0springfield",
    "Reykjavi\u0301k",
)


BAD_ARGUMENTS: tuple[Any, ...] = (
    ...,
    {},
    *({"location": other} for other in (None, 5, True, ["Tokyo"], {"city": "Tokyo"}, "")),
    *({"location": long} for long in ("S" * 101, "Tokyo" + " " * 96, "\u2603" * 101)),
    {"location": "Tokyo", "units": "metric"},
    {"location": "Tokyo", "place": "Tokyo, Japan"},
    {"Location": "Tokyo"},
    {"city": "Tokyo"},
)


DELIVERED: tuple[Literal["later", "at once"] | None, ...] = (None, "later", "at once")
"""How often a call's first request is delivered: once, or twice."""


def arguments_case(era: Era) -> Scenario:
    """Call with locations that are no places, and with arguments that do not fit."""
    # The longest that fits, and the same with space around a place.
    long = ["Tokyo" + " " * 95, " " * 95 + "Tokyo"]
    odd = (*NOT_PLACES, *PERHAPS_PLACES)
    who = [Caller(location, user_in_turn(number)) for number, location in enumerate(odd)]
    steps: list[Step] = []
    if era == "legacy":
        who += [Caller(location) for location in HOSTILE]
        steps += [WholeCall(call=number) for number in range(1, len(who) + 1)]
        return case("odd-arguments", "Arguments of every kind.", who, steps, era=era)
    for number in range(1, len(who) + 1):
        again = in_turn(DELIVERED, number)
        steps += [
            Send("first", call=number, again=again),
            Send("units", units("metric"), call=number),
        ]
    for location in long:
        who.append(Caller(location))
        steps += rounds(len(who), who[-1])
    who.append(Caller("Tokyo"))
    last = len(who)
    steps += [ListTools()]
    steps += [Send("first", call=last, arguments=arguments) for arguments in BAD_ARGUMENTS]
    steps += [Send("first", call=last, tool=tool) for tool in ("climate", "Weather", "")]
    # Also with a state and an answer, which are good.
    steps += [Send("first", call=last)]
    steps += [
        Send("units", units("metric"), call=last, arguments=arguments)
        for arguments in (..., {}, {"location": "Tokyo", "units": "imperial"}, {"location": 5})
    ]
    steps += [Send("units", units("metric"), call=last)]
    return case("odd-arguments", "Arguments of every kind.", who, steps)


def hostile_case() -> Scenario:
    """Call with locations that may be taken for commands, each before a clean call."""
    who: list[Caller] = []
    steps: list[Step] = []
    for location in HOSTILE:
        who += [Caller(location), Caller("Tokyo", "bob")]
        steps.append(Send("first", call=len(who) - 1))
        steps += rounds(len(who), who[-1])
    return case("hostile-locations", "Locations that look like commands.", who, steps)
