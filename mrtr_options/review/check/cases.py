"""The cases that a proposal is held to: systematic inputs, and random ones.

First what can be listed (every place with every choice, every bad answer at every question, every
attack on every state, every pair of calls at once), many calls in one run, so that it costs little;
then runs drawn at random from a seed. Each is a scenario; `contract` says how it may end.

Knows scenarios, the domain's places and the contract's limits; nothing of how servers work.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from mrtr_options.review.bench.attacks import in_full_width
from mrtr_options.review.bench.faults import Era
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.scenario import (
    CANCEL,
    DECLINE,
    Accept,
    Caller,
    Declares,
    Forge,
    KeyEdit,
    Keys,
    ListTools,
    Nothing,
    Refuse,
    Repeat,
    Restart,
    Roots,
    Scenario,
    Send,
    Setup,
    StateEdit,
    Step,
    Together,
    UserAnswer,
    Wait,
    WholeCall,
)
from mrtr_options.review.judge.contract.allowed import ROOM
from mrtr_options.review.judge.contract.answers import UNITS, places_meant
from mrtr_options.tool.weather import REPORTS

CITIES = tuple(dict.fromkeys(label.partition(",")[0] for label in REPORTS))


def _case(
    name: str,
    why: str,
    who: list[Caller],
    steps: list[Step],
    *,
    era: Era = "modern",
    instances: Literal[1, 2] = 1,
) -> Scenario:
    setup = Setup(era, "one" if instances == 1 else "free")
    return Scenario(name, why, setup, tuple(who), script=tuple(steps))


def choices_of(location: str) -> tuple[str, ...]:
    """Return the places that may be chosen for a location; one or none if nothing is asked."""
    return places_meant(location)[0]


def place(choice: Any) -> Accept:
    """Return an answer to the question "place"."""
    return Accept({"place": choice})


def units(choice: Any) -> Accept:
    """Return an answer to the question "units"."""
    return Accept({"units": choice})


def rounds(number: int, caller: Caller, chosen: str = "", unit: str = "metric") -> list[Send]:
    """Return the rounds of a clean call."""
    choices = choices_of(caller.location)
    steps = [Send("first", call=number)]
    if len(choices) > 1:
        steps.append(Send("place", place(chosen or choices[0]), call=number))
    if choices and (len(choices) == 1 or caller.asks):
        steps.append(Send("units", units(unit), call=number))
    return steps


# --- one by one ---------------------------------------------------------------------------------


def _places() -> Scenario:
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
    return _case("every-place", "Every place, every choice, both units.", who, steps)


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


def _arguments(era: Era) -> Scenario:
    """Call with locations that are no places, and with arguments that do not fit."""
    # The longest that fits, and the same with space around a place.
    long = ["Tokyo" + " " * 95, " " * 95 + "Tokyo"]
    odd = (*NOT_PLACES, *PERHAPS_PLACES)
    who = [Caller(location, ("alice", "bob")[number % 2]) for number, location in enumerate(odd)]
    steps: list[Step] = []
    if era == "legacy":
        who += [Caller(location) for location in HOSTILE]
        steps += [WholeCall(call=number) for number in range(1, len(who) + 1)]
        return _case("odd-arguments", "Arguments of every kind.", who, steps, era=era)
    for number in range(1, len(who) + 1):
        again: Literal["later", "at once"] | None = (None, "later", "at once")[number % 3]
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
    return _case("odd-arguments", "Arguments of every kind.", who, steps)


def _hostile() -> Scenario:
    """Call with locations that may be taken for commands, each before a clean call."""
    who: list[Caller] = []
    steps: list[Step] = []
    for location in HOSTILE:
        who += [Caller(location), Caller("Tokyo", "bob")]
        steps.append(Send("first", call=len(who) - 1))
        steps += rounds(len(who), who[-1])
    return _case("hostile-locations", "Locations that look like commands.", who, steps)


def bad_answers(name: Literal["place", "units"], good: str, foreign: str) -> Sequence[UserAnswer]:
    """Return answers to a question that do not fit, some of them almost.

    Args:
        name: The question's name.
        good: One of its choices.
        foreign: A choice of the question in another call.
    """
    other = "units" if name == "place" else "place"
    texts = foreign, good.upper(), f" {good}", f"{good} ", good[:-1], "", "kelvin", "1"
    values: list[Any] = [*texts, 0, 1, True, None, [good], [], 1.5]
    return [
        *(Accept({name: value}) for value in values),
        Accept({}),
        Accept(None),
        Accept({other: good}),
        Accept({name.upper(): good}),
        Accept({name: {"value": good}}),
        Accept(good),
        Refuse("maybe", {name: good}),  # pyright: ignore[reportArgumentType]
        Roots(),
    ]


def _bad_answers() -> Scenario:
    """Send every bad answer at every question, and then a good one, with the same state."""
    who = [
        Caller("Springfield"),
        Caller("Tokyo", "bob"),
        Caller("Portland"),
        Caller("Portland", "bob"),
    ]
    bad_place = bad_answers("place", "Springfield, Missouri", "Portland, Oregon")
    bad_units = bad_answers("units", "imperial", "Springfield, Missouri")
    steps: list[Step] = [Send("first", call=number) for number in (1, 2, 3)]
    steps += [Send("place", answer) for answer in bad_place]
    steps += [Send("place", Nothing()), Send("place", place("Springfield, Missouri"))]
    steps += [Send("units", answer) for answer in bad_units]
    steps += [Send("units", Nothing()), Send("units", units("imperial"))]
    steps += [Send("units", answer, call=2) for answer in bad_units[:4]]
    steps += 8 * [Send("units", Nothing(), call=2)]  # as many as a call's ten rounds leave room for
    steps += [Send("units", units("imperial"), call=2)]
    # A good answer once more, with more than was asked: more than a state has room for.
    wide = Accept({"place": "Portland, Oregon", "note": 20_000 * "x"})
    steps += [
        Send("place", wide, call=3),
        Send("place", place("Portland, Oregon"), call=3, retry=True),
    ]
    wide = Accept({"units": "imperial", "place": "Portland, Maine"})
    steps += [Send("units", Nothing(), call=3), Send("units", wide, call=3)]
    steps += [Send("units", units("imperial"), call=3, retry=True), Send("first", call=4)]
    # That is the name of the next question, too.
    wide = Accept({"place": "Portland, Oregon", "units": "imperial"})
    steps += [
        Send("place", wide, call=4),
        Send("place", place("Portland, Oregon"), call=4, retry=True),
    ]
    steps += [Send("units", units("metric"), call=4)]
    return _case("bad-answers", "Every answer that does not fit, then a good one.", who, steps)


def _declares_tasks() -> Scenario:
    """Call as a client that declares the Tasks extension; a server need not make tasks."""
    who: list[Caller] = []
    steps: list[Step] = []
    for location in ("Tokyo", "Springfield", "Atlantis", "Portland"):
        who.append(Caller(location, ("alice", "bob")[len(who) % 2]))
        clean = rounds(len(who), who[-1], "", "imperial")
        if location == "Portland":
            clean[-1] = replace(clean[-1], answer=DECLINE)
        steps += [replace(step, takes_tasks=True) for step in clean]
    return _case("declares-tasks", "The client declares the Tasks extension.", who, steps)


TASKS = (
    "task-clean",
    "task-update-twice",
    "task-two-answers",
    "task-unknown-keys",
    "task-partial-keys",
    "task-bad-answer",
    "task-decline",
    "task-other-principal",
    "task-guessed",
    "task-undeclared",
    "task-cancel",
    "task-cancel-finished",
    "task-expired",
)
"""The schedules for a server that hands out tasks."""


def _near_keys() -> Scenario:
    """Send a good answer under a key that is nearly the question's own; then under its own."""
    who: list[Caller] = []
    steps: list[Step] = []
    for edit, name in itertools.product(get_args(KeyEdit), ("place", "units")):
        who.append(Caller("Springfield", ("alice", "bob")[len(who) % 2]))
        clean = rounds(len(who), who[-1], "Springfield, Missouri", "imperial")
        for step in clean:
            if step.round == name:
                steps.append(replace(step, key_edit=edit))
                declined = replace(step, answer=DECLINE, key_edit=edit, if_asked=True)
                steps.append(declined)
            steps.append(replace(step, if_asked=step.round != "first"))
    return _case("near-keys", "Answers under keys that are nearly those asked.", who, steps)


def _bad_states() -> Scenario:
    """Send every kind of bad state with every kind of answer, and without one."""
    who = [Caller("Springfield"), Caller("Springfield", "mallory"), Caller("Tokyo")]
    good = {"place": place("Springfield, Missouri"), "units": units("imperial")}
    misfit = {"place": place("Tokyo, Japan"), "units": units("kelvin")}
    steps: list[Step] = [Send("first", call=number) for number in (1, 2, 3)]

    def each_answer(name: Literal["place", "units"], call: int) -> None:
        for answer in (DECLINE, CANCEL, misfit[name], Nothing(), good[name]):
            steps.append(Forge(name, answer, call, most=FORGED))
            for edit in get_args(StateEdit):
                if edit != "drop":
                    steps.append(Send(name, answer, call=call, edit=edit))
            # A genuine one, in other hands and with other arguments.
            steps.append(Send(name, answer, call=call, principal="eve"))
            steps.append(Send(name, answer, call=call, location="Portland"))

    each_answer("place", 1)
    each_answer("units", 3)
    steps.append(Send("place", good["place"]))
    each_answer("units", 1)
    steps += [Send("units", good["units"]), Send("units", good["units"], call=3), Wait(660)]
    for answer in (DECLINE, CANCEL, misfit["place"], Nothing(), good["place"]):  # too old by now
        steps.append(Send("place", answer, call=2))
    return _case("bad-states", "Every kind of bad state with every answer.", who, steps)


FORGED = 16
"""The number of forged states that go with each answer; all of them go with an answer that fits."""


def _refusals() -> Scenario:
    """Decline and cancel every question, with content and without, and answer it afterwards."""
    who: list[Caller] = []
    steps: list[Step] = []
    for location, name, good in (
        ("Springfield", "place", "Springfield, Missouri"),
        ("Portland", "units", "imperial"),
        ("Tokyo", "units", "metric"),
    ):
        for action, content in itertools.product(("decline", "cancel"), (None, {name: good})):
            refusal = Refuse(action, content)  # pyright: ignore[reportArgumentType]
            who.append(Caller(location, ("alice", "bob")[len(who) % 2]))
            number = len(who)
            steps.append(Send("first", call=number))
            if location == "Portland":
                steps.append(Send("place", place("Portland, Oregon"), call=number))
            steps.append(Send(name, refusal, call=number))  # pyright: ignore[reportArgumentType]
            steps.append(Repeat(number))
    return _case("refusals", "Every question declined and cancelled.", who, steps)


def _forks() -> Scenario:
    """Send two answers with one state, at every question, in every order; some are nearly equal."""
    missouri = place("Springfield, Missouri")
    illinois = place("Springfield, Illinois")
    metric = units("metric")
    imperial = units("imperial")
    pairs = [(metric, imperial), (metric, DECLINE), (DECLINE, imperial), (CANCEL, metric)]
    pairs += [(metric, Refuse(no, metric.content)) for no in ("decline", "cancel")]
    pairs += [(metric, units(near)) for near in ("METRIC", " metric", ["metric"])]
    who = [Caller("Springfield")] * 3 + [Caller("Tokyo", "bob")] * (1 + len(pairs))
    steps: list[Step] = [
        Send("first", call=1),
        Send("place", illinois),
        Send("place", missouri),
        Send("units", imperial),
        Send("units", metric),
        Send("first", call=2),
        Send("place", illinois, call=2),
        Send("place", DECLINE, call=2),
        Send("place", Refuse("cancel", illinois.content), call=2),
        Send("units", imperial, call=2),
        Send("units", metric, call=2),
        Send("first", call=3),
        Send("place", missouri, call=3),
        Send("units", imperial, call=3),
        Send("place", illinois, call=3),
        Send("units", metric, call=3),
    ]
    for number, (one, other) in enumerate(pairs, start=4):
        steps += [Send("first", call=number), Send("units", one, call=number)]
        steps += [Send("units", other, call=number), Send("units", one, call=number)]
    last = len(who)
    both = Send("units", metric, call=last), Send("units", imperial, call=last)
    steps += [Send("first", call=last), Together(both)]
    return _case("forks", "One state comes with two answers.", who, steps)


def _cold() -> Scenario:
    """Answer before the question, well and badly, and answer questions that are settled."""
    imperial = {"units": "imperial"}
    who: list[Caller] = []
    steps: list[Step] = []

    def call(
        location: str, first: dict[str, Any], at_place: dict[str, Any], at_units: dict[str, Any]
    ):
        who.append(Caller(location, ("alice", "bob")[len(who) % 2]))
        number = len(who)
        choices = choices_of(location)
        steps.append(Send("first", call=number, extra=first))
        if len(choices) > 1:
            steps.append(
                Send("place", place(choices[-1]), call=number, extra=at_place, if_asked=True)
            )
        steps.append(Send("units", units("metric"), call=number, extra=at_units, if_asked=True))

    call("Tokyo", {}, {}, {})  # from here on the keys are known
    call("Springfield", {}, {}, {})
    call("Tokyo", {"units": imperial}, {}, {})
    call("Tokyo", {"place": {"place": "Springfield, Missouri"}}, {}, {})
    call("Tokyo", {"units": {"units": "kelvin"}}, {}, {})
    call("Tokyo", {"units": DECLINE}, {}, {})
    call("Springfield", {"units": imperial}, {}, {})
    call("Springfield", {"units": {"units": "kelvin"}}, {}, {})
    call("Springfield", {"units": Refuse("decline", imperial)}, {}, {})
    call("Springfield", {"place": {"place": "Springfield, Missouri"}}, {}, {})
    call("Springfield", {"place": {"place": "Portland, Maine"}}, {}, {})
    call("Springfield", {}, {"units": imperial}, {})
    call("Springfield", {}, {"units": {"units": "kelvin"}}, {})
    call("Springfield", {}, {}, {"place": {"place": "Springfield, Massachusetts"}})
    call("Springfield", {}, {}, {"place": DECLINE})
    call("Springfield", {}, {}, {"place": CANCEL})
    call("Portland", {"horoscope": {"sign": "leo"}}, {"x": DECLINE}, {"": {"units": "imperial"}})
    call(
        "Tokyo",
        {},
        {},
        {"place": {"place": "Lisbon, Portugal"}, "location": {"location": "Lisbon"}},
    )
    call("Atlantis", {"place": {"place": "Tokyo, Japan"}, "units": imperial}, {}, {})
    for chosen in ("Missouri", "Illinois", "Missouri"):  # everything at once, again and again
        call(
            "Springfield", {"place": {"place": f"Springfield, {chosen}"}, "units": imperial}, {}, {}
        )
        call("Tokyo", {"units": imperial}, {}, {})
    _add_unasked_alone(who, steps)
    return _case("cold-answers", "Answers before and after their questions.", who, steps)


def _add_unasked_alone(who: list[Caller], steps: list[Step]) -> None:
    """Add calls in which an unasked answer comes alone.

    It is the answer to another question, or it fits and has a key that no question has.
    """
    imperial = {"units": "imperial"}
    missouri = {"place": "Springfield, Missouri"}
    unasked: list[tuple[str, dict[str, Any]]] = [
        ("place", {"units": imperial}),
        ("units", {"place": missouri}),
        ("place", {"city": missouri}),
        ("units", {"scale": imperial}),
    ]
    for name, other in unasked:
        for extra in (other, dict.fromkeys(other, DECLINE)):
            who.append(Caller("Springfield", ("alice", "bob")[len(who) % 2]))
            number = len(who)
            for step in rounds(number, who[-1], "Springfield, Massachusetts"):
                if step.round == name:
                    steps.append(Send(step.round, Nothing(), call=number, extra=extra))
                steps.append(replace(step, if_asked=step.round != "first"))


def respelled(location: str) -> tuple[str, ...]:
    """Return the same place in other spellings, which are other arguments."""
    wide = in_full_width(location)
    return (
        f" {location}",
        f"{location}\t",
        location.lower(),
        location.upper(),
        location.swapcase(),
        wide,
    )


NAMES = "\u0141ukasz", "\u738b\u5c0f\u660e"
"""Names of users in letters that one encoding or another does not have."""

SAME_CHECKSUM = ("user-l5dmvs", "user-pz8lbs"), ("user-smxnt4", "user-uhxxj7")
"""Pairs of users whose names have the same CRC-32, and the same Adler-32."""

_LONG = "someone.of.a.department.with.a.long.name." * 3
"""The beginning of names that are longer than most."""


def _attacks(first: str, second: str) -> Scenario:
    """Attack the state of every question in every way, as somebody who also holds other states."""
    who = [
        Caller(first),
        Caller(second, "mallory"),
        Caller(first, "mallory"),
        Caller(second),
        Caller(first),
        Caller(first, None),
        Caller(first, f"{_LONG}1"),
        Caller(f" {first}"),
        Caller(f"{first} "),
        *(Caller(first, name) for name in NAMES),
        Caller(first, ""),
        *(Caller(first, one) for one, _ in SAME_CHECKSUM),
    ]
    steps: list[Step] = []
    metric = units("metric")
    wide = in_full_width("alice")
    for number, caller in enumerate(who[:4], start=1):
        steps += rounds(number, caller)[:-1]
    steps += [Send("first", call=5)]
    if len(choices_of(first)) > 1:
        missouri = choices_of(first)[-1]
        steps += [Forge("place", place(missouri), call=5), Send("place", place(missouri), call=5)]
    steps += [Forge("units", units("imperial"), call=5)]
    # Genuine states of other users and other calls.
    steps += [
        Send("units", units("metric"), call=5, state_of=2),
        Send("units", units("metric"), call=5, state_of=3),
        Send("units", units("metric"), call=5, state_of=4),
        Send("units", units("metric"), call=5, principal="mallory"),
        Send("units", DECLINE, call=5, principal="mallory"),
        *(Send("units", metric, call=5, principal=each) for each in ("Alice", "alice ", wide)),
        Send("units", units("metric"), call=5, location=second),
        *(Send("units", units("metric"), call=5, location=each) for each in respelled(first)),
        Send("units", units("metric"), call=5, location="Nairobi"),
        Send("units", units("metric"), call=5, location="Atlantis"),
        # From a client that cannot be asked, whose calls end without an answer.
        Send("units", Nothing(), call=5, principal="mallory", asks=False),
        Send("units", Nothing(), call=5, state="made up", asks=False),
        Send("units", units("imperial"), call=5),
        Send("units", units("imperial"), call=5, principal="mallory"),
        Send("units", units("imperial"), call=5, location="Nairobi"),
        # And that of somebody without a name, and with an empty one.
        *(step for number in (6, 12) for step in rounds(number, who[number - 1])[:-1]),
        *(Send("units", units("imperial"), call=number, state_of=5) for number in (6, 12)),
        Send("units", units("metric"), call=6, state_of=12),
        Send("units", units("metric"), call=12, state_of=6),
        Send("units", units("metric"), call=12),
        Send("units", units("metric"), call=6, principal="alice"),
        Send("units", DECLINE, call=6, principal="mallory"),
        *(Send("units", metric, call=6, principal=each) for each in ("None", "null", "anonymous")),
        Send("units", units("metric"), call=6),
        Send("units", units("metric"), call=6, principal="mallory"),
        # Names that begin alike, and a name + location that concatenate to the same string.
        *(step for number in (7, 8, 9) for step in rounds(number, who[number - 1])[:-1]),
        Send("units", units("metric"), call=7, principal=f"{_LONG}2"),
        Send("units", units("metric"), call=8, principal="alice ", location=first),
        Send("units", units("metric"), call=9, principal=" alice", location=first),
        # Names in other letters than ASCII's.
        *(step for number in (10, 11) for step in rounds(number, who[number - 1])[:-1]),
        Send("units", units("metric"), call=10, principal=NAMES[1]),
        Send("units", units("metric"), call=10),
        Send("units", units("metric"), call=11),
        *(step for number in (13, 14) for step in rounds(number, who[number - 1])[:-1]),
        *(
            Send("units", units("metric"), call=number, principal=other)
            for number, (_, other) in enumerate(SAME_CHECKSUM, start=13)
        ),
    ]
    return _case(f"attacks-{first.lower()}", "Every attack on every state.", who, steps)


_KINDS: dict[str, tuple[str, str]] = {
    "Tokyo": ("Tokyo", ""),
    "Springfield": ("Springfield", "Springfield, Missouri"),
    "Portland": (" portland", "Portland, Oregon"),
    "unknown": ("Zubrowka", ""),
}


def _pairs(instances: Literal[1, 2], *, at_once: bool) -> Scenario:
    """Pair all calls, of two users and of one, with their rounds in turn or at the same moment."""
    who: list[Caller] = []
    steps: list[Step] = []
    for (one, other), same in itertools.product(itertools.product(_KINDS, repeat=2), (False, True)):
        here: list[list[Send]] = []
        for kind, user, unit in (
            (one, "alice", "metric"),
            (other, "alice" if same else "bob", "imperial"),
        ):
            location, chosen = _KINDS[kind]
            who.append(Caller(location, user))
            here.append(rounds(len(who), who[-1], chosen, unit))
        for turn in itertools.zip_longest(*here):
            together = tuple(step for step in turn if step is not None)
            steps.extend([Together(together)] if at_once else together)
    if not at_once:
        steps.append(ListTools("carol"))  # after calls of others, who are not named there
    how = "at the same moment" if at_once else "in turn"
    slug = f"pairs-{'at-once' if at_once else 'in-turn'}-{instances}"
    return _case(slug, f"Every pair of calls, {how}.", who, steps, instances=instances)


def _mixed(instances: Literal[1, 2]) -> Scenario:
    """Let one call be declined, left or answered badly while others are open."""
    who: list[Caller] = []
    steps: list[Step] = []
    bad = units("kelvin")
    for wrong in (bad, DECLINE, CANCEL, Nothing(), Roots()):
        who += [
            Caller("Springfield", "alice"),
            Caller("Lisbon", "bob"),
            Caller("Springfield", "bob"),
        ]
        third = len(who)
        other = third - 1
        one = third - 2
        steps += [Send("first", call=one), Send("first", call=other), Send("first", call=third)]
        steps += [Send("place", place("Springfield, Missouri"), call=one)]
        steps += [Send("units", wrong, call=other)]
        steps += [Send("first", call=other, arguments={"location": 7})]
        steps += [Send("place", place("Springfield, Massachusetts"), call=third)]
        steps += [Send("units", units("imperial"), call=one), Repeat(one)]
        steps += [Send("units", units("metric"), call=third), Repeat(third, 2), Repeat(one)]
    slug = f"one-goes-wrong-{instances}"
    return _case(slug, "One call goes wrong beside others.", who, steps, instances=instances)


def _equal_calls() -> Scenario:
    """End one of three equal calls, in any way, and let the others go on; two are one user's."""
    who: list[Caller] = []
    steps: list[Step] = []
    kelvin = units("kelvin")
    first = Send("first")
    chosen = Send("place")
    ends = [[first, chosen, Send("units", answer)] for answer in (None, DECLINE, CANCEL, kelvin)]
    for end, stand in itertools.product((*ends, [first, Send("place", DECLINE)]), (1, 2)):
        who += [Caller("Springfield"), Caller("Springfield"), Caller("Springfield", "bob")]
        one, *others = range(len(who) - 2, len(who) + 1)
        clean = [rounds(number, who[-1], "", UNITS[number % 2]) for number in others]
        steps += [step for each in clean for step in each[:stand]]
        steps += [replace(step, call=one) for step in end]
        steps += [step for each in clean for step in each[stand:]]
    return _case("equal-calls", "One of three equal calls ends, the others go on.", who, steps)


def _again(instances: Literal[1, 2]) -> Scenario:
    """Make the same call again and again for one user, with requests that arrive late and twice."""
    who = [Caller("Tokyo"), Caller("Tokyo"), Caller("Tokyo", "bob"), Caller("Springfield")]
    who += [Caller("Springfield"), Caller("Springfield", asks=False), Caller("Tokyo", asks=False)]
    who += [Caller("Tokyo", asks=False), Caller("Tokyo", "bob", asks=False)]
    steps: list[Step] = []
    for number, caller in enumerate(who, start=1):
        if number > 2:
            steps += rounds(number, caller, "Springfield, Missouri", UNITS[number % 2])
    # Two that are equal in everything, at the same time.
    for one, other in zip(rounds(1, who[0]), rounds(2, who[1]), strict=True):
        steps += [one, other]
    steps += [Repeat(1), Repeat(2), Repeat(4, 2), Repeat(4), Repeat(3)]
    who += [Caller("Springfield"), Caller("Portland", "bob"), Caller("Tokyo")]
    for number in (10, 11, 12):
        for step in rounds(number, who[number - 1], "", "imperial"):
            steps.append(replace(step, again="at once" if number == 10 else "later"))
    who.append(Caller("Springfield"))
    for step in rounds(len(who), who[-1], "Springfield, Missouri", "imperial"):
        if step.round != "first":  # the response to a round without the answer is lost
            steps.append(replace(step, answer=Nothing(), lost=True))
        steps.append(step)
    slug = f"again-{instances}"
    return _case(slug, "The same calls again, late and twice.", who, steps, instances=instances)


def _cannot_be_asked() -> Scenario:
    """Call with clients that cannot ask: from the beginning, later, and only for one round."""
    who = [Caller(location, asks=False) for location in (*REPORTS, *CITIES, "Atlantis", " tokyo")]
    who += [Caller(location, asks=False, declares="url") for location in ("Tokyo", "Springfield")]
    steps: list[Step] = [Send("first", call=number) for number in range(1, len(who) + 1)]
    for location in ("Springfield", "Tokyo"):
        for name in ("place", "units"):
            if location == "Tokyo" and name == "place":
                continue
            for answer in (Nothing(), None, DECLINE, CANCEL):
                who.append(Caller(location, "bob"))
                number = len(who)
                good = {"place": place("Springfield, Missouri"), "units": units("imperial")}
                steps.append(Send("first", call=number))
                if location == "Springfield" and name == "units":
                    steps.append(Send("place", good["place"], call=number))
                said = answer or good[name]
                steps.append(Send(name, said, call=number, asks=False))  # pyright: ignore
    for declares in (None, "empty"):  # others still are asked
        who.append(Caller("Springfield", declares=declares))
        steps += rounds(len(who), who[-1], "Springfield, Missouri", "imperial")
    # And after them, one that cannot.
    who += [Caller("Tokyo", asks=False), Caller("Springfield", asks=False, declares="url")]
    steps += [Send("first", call=number) for number in (len(who) - 1, len(who))]
    return _case("cannot-be-asked", "Clients that cannot ask.", who, steps)


def _at_once(slug: str, *users: str) -> Scenario:
    """Make the same calls at the same moment, of two users or of one; an effect takes long.

    Others begin beside the answers, and some of them cannot be asked.
    """
    who = [Caller("Tokyo", user) for user in 3 * users]
    begin, bill = (
        [replace(step, call=n, fault=fault) for n in range(1, len(who) + 1)]
        for step, fault in zip(rounds(1, who[0]), ("slow@audit", "slow@bill"), strict=True)
    )
    who += 2 * [Caller("Tokyo", asks=False)] + 3 * [Caller("Tokyo")]
    others = [Send("first", call=n) for n in range(len(bill) + 1, len(who) + 1)]
    steps = [Together(tuple(begin)), Together((*bill, *others))]
    # What goes on after an error shows beside another call that takes as long.
    late = Send("first", call=len(who) + 1, fault="slow@audit")
    who.append(Caller("Lisbon", "bob"))
    return _case(slug, "The same call is made twice at once.", who, [*steps, late])


def _crowd() -> Scenario:
    """Go on with a call after as many others were open as a server has room for.

    Most of the others are its own user's. When most of them have ended there is room again.
    """
    who = (ROOM - OTHERS) * [Caller("Springfield")]
    # The names are too short to be looked for.
    who += [Caller("Tokyo", f"u{at % 20}") for at in range(MOST - len(who))]
    one, *answers = rounds(1, who[0], "Springfield, Missouri", "imperial")
    begin = [Send("first", call=number, if_room=number > ROOM) for number in range(2, MOST + 1)]
    begin[0] = replace(begin[0], fault="lock@audit")  # so that many are at work at the same time
    ends = [
        Send("units", DECLINE if number % 20 else None, call=number)
        for number in range(ROOM - OTHERS + 1, MOST + 1)
    ]
    who += [Caller("Tokyo", "u1"), Caller("Springfield")]
    new = [rounds(number, who[number - 1]) for number in (MOST + 1, MOST + 2)]
    batches = [
        Together(tuple(each[at : at + AT_ONCE]))
        for each in (begin[: ROOM - 1], begin[ROOM - 1 :], ends)
        for at in range(0, len(each), AT_ONCE)
    ]
    steps: list[Step] = [one, *batches, *new[0], *answers, *new[1]]
    return _case("crowd", "Others begin calls while one is open, and end them.", who, steps)


OTHERS = 100
"""The number of open calls of other users, if one user has most of them."""

MOST = 1_500
"""The most open calls, if a server has room for more than it has to."""

AT_ONCE = 50
"""The number of them that begin at the same moment: more than a pool has threads by default."""


def _dies() -> Scenario:
    """Let an instance die in a round, before its effect; all users go on with its successor."""
    who = 2 * [Caller("Springfield"), Caller("Lisbon", "bob")]
    who += [Caller("Portland", "bob"), Caller("Portland", "bob"), Caller("Tokyo")]
    steps: list[Step] = [Send("first", call=2), *rounds(1, who[0])[:-1]]
    steps += [Send("units", fault="slow@bill", dies=True), Send("units", call=2)]
    steps += [*rounds(3, who[2]), *rounds(4, who[3])]
    steps += [Send("first", call=5, fault="slow@audit", dies=True)]
    steps += [*rounds(6, who[5]), *rounds(7, who[6])]
    return _case("dies", "An instance dies in a round, and others call.", who, steps)


def _leaves() -> Scenario:
    """Let a client leave while its bill takes long; its user and another one go on.

    A client whose request arrives twice leaves while its audit takes long, and the second delivery
    goes on.
    """
    who = [Caller("Springfield"), Caller("Lisbon", "bob"), Caller("Tokyo")]
    steps: list[Step] = [Send("first", call=2), *rounds(1, who[0])[:-1], Send("first", call=3)]
    steps += [Send("units", fault="slow@bill", leaves=True), Send("units", call=2), Send("units")]
    last = Send("units", call=3)
    steps += [
        Together((replace(last, fault="slow@audit", leaves=True), last)),
        Send("first", call=2),
    ]
    return _case("leaves", "A client leaves while its effect takes long.", who, steps)


def _fails() -> Scenario:
    """Let more effects fail at once than a pool has slots; then the ledger works again."""
    who = [
        *SLOTS * [Caller("Tokyo")],
        *SLOTS * [Caller("Lisbon")],
        *2 * [Caller("Springfield", "bob")],
    ]
    begin = range(1, SLOTS + 1)
    other = range(SLOTS + 1, 2 * SLOTS + 1)
    fail = [Send("first", call=number, fault="fail@audit") for number in begin]
    bills = [Send("units", call=number, fault="fail@bill") for number in other]
    steps: list[Step] = [Send("first", call=number) for number in other]
    steps += [Together(tuple(fail)), *rounds(len(who), who[-1]), replace(fail[0], fault=None)]
    steps += [Together(tuple(bills)), *rounds(len(who) - 1, who[-1]), replace(bills[0], fault=None)]
    # Equal ones bring another answer, and fail again, since a server may give up after a few.
    steps += [replace(bills[1], answer=units("imperial"), fault=None), *6 * [bills[2]]]
    return _case("many-fail", "The effects of many calls fail.", who, steps)


SLOTS = 12
"""The number of effects that fail at the same moment."""


def _times() -> list[Scenario]:
    """Let a state grow old at every question, and a long call live from round to round."""
    who = [Caller("Springfield"), Caller("Tokyo", "bob"), Caller("Springfield", "bob")]
    steps: list[Step] = [Send("first", call=number) for number in (1, 2, 3)]
    steps += [Wait(530), Send("place", place("Springfield, Missouri"))]
    steps += [Send("units", units("imperial"), call=2)]
    steps += [Wait(530), Send("units", units("imperial"))]
    steps += [Send("place", place("Springfield, Missouri"), call=3)]  # too late by now
    late: list[Step] = [Send("first", call=number) for number in (1, 2, 3)]
    late += [Send("place", place("Springfield, Missouri"), call=3), *rounds(6, Caller("Lisbon"))]
    late += [Wait(615), Repeat(3), Repeat(6)]  # what had its response is no younger
    # Beside the next call of the same user, which is equal to the one that is too old.
    late += [Send("first", call=5), Send("place", place("Springfield, Massachusetts"), call=5)]
    late += [Send("place", Nothing()), Send("units", Nothing(), call=2)]
    late += [Send("place", place("Springfield, Missouri")), Send("units", units("metric"), call=2)]
    late += [Send("units", DECLINE, call=3), Send("units", units("metric"), call=3)]
    late += [Send("units", units("metric"), call=5)]
    # An answer that does not fit makes no state younger.
    who += [Caller("Tokyo"), Caller("Springfield"), Caller("Lisbon")]
    steps += [Send("first", call=4), Wait(480), Send("units", units("kelvin"), call=4)]
    steps += [Wait(300), Send("units", units("metric"), call=4)]
    # A state under an older key grows old as well.
    begun: list[Step] = [Send("first"), Send("first", call=2)]
    old = [Send("place", place("Springfield, Missouri")), Send("units", units("metric"), call=2)]
    rotated = [*begun, Restart("rotated"), Wait(615), *old]
    same = "The clock shows a state's own time again."
    # Equal calls: the first has expired when the third begins, and the second goes on.
    equal = 3 * [Caller("Springfield")]
    one = rounds(2, equal[0], "Springfield, Missouri", "imperial")
    other = rounds(3, equal[0], "Springfield, Massachusetts")
    over: list[Step] = [Wait(1200), Send("first"), Wait(400), one[0], Wait(250), one[1]]
    over += [other[0], one[2], *other[1:]]
    clock: list[Step] = []
    for number in range(1, DAY // MINUTES_8 + 2):
        clock += [Send("first", call=number), Wait(MINUTES_8), Send("units", call=number)]
    day = [Caller("Tokyo", ("alice", "bob")[number % 2]) for number in range(DAY // MINUTES_8 + 1)]
    return [
        _case("slow-users", "Nine minutes for each question.", who, steps),
        _case("eleven-minutes", "Eleven minutes at every question.", who, late),
        _case("over-an-expiry", "An equal call expires, and another begins.", equal, over),
        _case("around-the-clock", "Eight minutes for a question, all day.", day, clock),
        _case("old-key-later", "The key is rotated, and eleven minutes pass.", who[:2], rotated),
        *(
            _case(slug, same, who[:2], [*begun, Wait(seconds + 5), *old])
            for slug, seconds in LATER.items()
        ),
    ]


DAY = 86_400
MINUTES_8 = 480

LATER = {"an-hour-later": 3600, "a-day-later": 86_400, "a-week-later": 604_800}
"""The seconds after which a clock that goes around shows the same time again."""


def _restarts() -> list[Scenario]:
    """Replace the servers at every question."""
    found: list[Scenario] = []
    for ring in get_args(Keys):
        who = [Caller("Springfield"), Caller("Portland", "bob"), Caller("Tokyo"), Caller("Lisbon")]
        steps: list[Step] = [Send("first", call=number) for number in (1, 2, 3)]
        steps += [
            *rounds(4, who[3]),
            Send("place", place("Portland, Oregon"), call=2),
            Restart(ring),
        ]
        steps.insert(0, Restart("same"))  # else what earlier runs have left open counts
        # Equal calls begin beside those from before, in the same order.
        who += [Caller("Springfield"), Caller("Portland", "bob")]
        one = rounds(5, who[4], "Springfield, Massachusetts")
        other = rounds(6, who[5])
        steps += [one[0], *other[:2], Send("place", place("Springfield, Missouri")), one[1]]
        steps.append(Send("units", units("imperial"), call=2))
        steps += [Send("units", units("imperial"), call=3), Send("units", units("imperial"))]
        steps += [one[2], other[2]]
        found.append(_case(f"restart-{ring}", "The servers are replaced.", who, steps))
    return found


def _faults() -> list[Scenario]:
    """Let each effect fail, always or only for a moment, beside a call in which it does not."""
    found: list[Scenario] = []
    for what, kind in itertools.product(FAILS, ("audit", "bill")):
        if (what, kind) == ("slow", "audit"):
            continue
        who = [Caller("Springfield"), Caller("Lisbon", "bob"), Caller("Springfield")]
        fault = f"{what}@{kind}"
        one = rounds(1, who[0], "Springfield, Missouri", "imperial")
        broken = 0 if kind == "audit" else 2
        equal = rounds(3, who[2], "Springfield, Illinois")
        steps: list[Step] = [Send("first", call=2), *equal[:2], *one[:broken]]
        again = "at once" if what == "slow" else None
        steps += (
            replace(one[broken], fault=fault, again=again),
            Send("units", units("imperial"), call=2),
        )
        steps += [replace(one[broken], retry=True), *one[broken + 1 :], *equal[2:]]
        slug = f"{FAILS[what]}-{kind}-beside"
        found.append(_case(slug, f"The {kind} of one call fails, or has to wait.", who, steps))
    return found


FAILS: dict[Literal["fail", "once", "slow", "lock"], str] = {
    "fail": "failed",
    "once": "failed-once",
    "slow": "slow",
    "lock": "locked",
}
"""The faults of the ledger, with their names in the names of cases."""


def _legacy() -> Scenario:
    """Call as a client of the old era: every place, every answer."""
    who: list[Caller] = []
    steps: list[Step] = []

    def call(
        location: str,
        answers: dict[str, Any],
        *,
        asks: bool = True,
        declares: Declares | None = None,
        version: str | None = None,
    ) -> None:
        who.append(Caller(location, ("alice", "bob")[len(who) % 2], asks, declares, version))
        steps.append(WholeCall(answers, call=len(who)))

    for label in REPORTS:
        call(label.partition(",")[0], {"place": place(label), "units": units("imperial")})
        call(label, {"units": units("metric")}, asks=len(label) % 2 == 0)
    for location in ("Springfield", "Tokyo"):
        call(location, {}, asks=False, declares="url")
        call(location, {}, declares="empty")
        for version in HANDSHAKE_PROTOCOL_VERSIONS[:-1]:  # elicitation is as old as 2025-06-18
            call(location, {}, asks=version >= "2025-06-18", version=version)
    for name, location in (("place", "Springfield"), ("units", "Portland")):
        good = {"place": place(choices_of(location)[-1]), "units": units("imperial")}
        refused = (DECLINE, CANCEL, Refuse("decline", good[name].content))
        for wrong in (*refused, (Accept({name: "kelvin"}), good[name])):
            call(location, {**good, name: wrong})
        for always in (Accept({name: "kelvin"}), Roots()):
            call(location, {**good, name: always})
    steps.append(ListTools("carol"))
    return _case("legacy", "A client of the old era.", who, steps, era="legacy")


def _legacy_stays() -> Scenario:
    """Call again in the same session as clients of the old era, whose users answer differently."""
    who: list[Caller] = []
    steps: list[Step] = []
    for at, location in enumerate(("Springfield", "Springfield", "Tokyo", "Tokyo", "Springfield")):
        for user in ("alice", "bob"):
            who.append(Caller(location, user))
            choices = choices_of(location)
            said: dict[str, UserAnswer | tuple[UserAnswer, ...]] = {
                "place": place(choices[(at + len(who)) % len(choices)]),
                "units": DECLINE if at == 3 else units(UNITS[(at + len(who)) % 2]),
            }
            steps.append(WholeCall(said, call=len(who), session=user))
    return _case("legacy-stays", "Clients stay connected.", who, steps, era="legacy")


def _legacy_fails() -> Scenario:
    """Let each effect of an old client's call fail."""
    who = [Caller("Tokyo"), Caller("Springfield", "bob"), Caller("Lisbon")]
    steps: list[Step] = [
        WholeCall(call=1, fault="fail@audit"),
        WholeCall(call=2, fault="fail@bill"),
        WholeCall(call=3),
    ]
    return _case("legacy-fails", "The effects of an old client fail.", who, steps, era="legacy")


def _legacy_waits() -> Scenario:
    """Let users of the old era think, while other calls come and go."""
    who = [
        Caller("Springfield", "bob"),
        *(Caller("Springfield", f"user-{n}") for n in range(THINKING)),
    ]
    who.append(Caller("Tokyo"))
    last = len(who)
    said: dict[str, Any] = {"place": place("Springfield, Missouri"), "units": units("imperial")}
    thinking = [WholeCall(said, call=number, waits_for=last) for number in range(2, last)]
    steps: list[Step] = [Together((*thinking, WholeCall(said, call=last))), WholeCall(said, call=1)]
    return _case("legacy-waits", "Users think, and others call.", who, steps, era="legacy")


THINKING = 8
"""The number of users who think at a time: more than a small pool of workers has."""


def _legacy_at_once() -> Scenario:
    """Answer the same questions at the same moment as users of the old era, each differently."""
    who: list[Caller] = []
    calls: list[WholeCall] = []
    for at, location in enumerate(("Springfield", "Portland", "Springfield", "Tokyo")):
        for user in ("alice", "bob"):
            who.append(Caller(location, user))
            choices = choices_of(location)
            said = {
                "place": place(choices[len(who) % len(choices)]),
                "units": units(UNITS[(len(who) + at) % 2]),
            }
            calls.append(WholeCall(said, call=len(who)))  # pyright: ignore[reportArgumentType]
    steps: list[Step] = [Together(tuple(calls)), *(replace(each) for each in calls[:2])]
    why = "Users answer at the same moment, each otherwise."
    return _case("legacy-at-once", why, who, steps, era="legacy")


def _legacy_thinks() -> Scenario:
    """Let a user of the old era think for seconds, for a minute and for nine, and then answer."""
    who: list[Caller] = []
    steps: list[Step] = []
    for seconds in THINK_SECONDS:
        for location in ("Springfield", "Tokyo"):
            who.append(Caller(location, ("alice", "bob")[len(who) % 2]))
            said: dict[str, Any] = {
                "place": place("Springfield, Missouri"),
                "units": units("imperial"),
            }
            steps.append(WholeCall(said, call=len(who), thinks=seconds))
    return _case("legacy-thinks", "A user thinks for a while.", who, steps, era="legacy")


THINK_SECONDS = 5, 70, 540
"""Times to think: longer than a careless server waits, and shorter than a state lives."""


def systematic() -> list[Scenario]:
    """Return every case that can be listed, the most revealing first."""
    return [
        _places(),
        _bad_answers(),
        _attacks("Springfield", "Portland"),
        _attacks("Tokyo", "Lisbon"),
        _arguments("modern"),
        _hostile(),
        _declares_tasks(),
        _near_keys(),
        _pairs(1, at_once=False),
        _cold(),
        _forks(),
        _refusals(),
        _cannot_be_asked(),
        _mixed(1),
        _equal_calls(),
        _again(1),
        _pairs(1, at_once=True),
        _legacy(),
        _legacy_waits(),
        _legacy_fails(),
        _legacy_stays(),
        _legacy_at_once(),
        _legacy_thinks(),
        _at_once("users-at-once", "alice", "bob"),
        _at_once("equal-at-once", "alice", "alice"),
        _crowd(),
        _leaves(),
        _fails(),
        _dies(),
        _bad_states(),
        *_times(),
        *_faults(),
        *_restarts(),
        _pairs(2, at_once=False),
        _mixed(2),
        _again(2),
        _arguments("legacy"),
    ]


def elsewhere(history: History) -> Scenario | None:
    """Return a case with states of another run of the same server; None if that had no states.

    The server had other keys and another ledger then.
    """
    who: list[Caller] = []
    steps: list[Step] = []
    for sent, got in history.exchanges:
        request = sent.request
        reply = got.reply
        names = list(map(reply.name_of, reply.questions))
        choices = choices_of(request.location)
        if reply.state is None or names not in (["place"], ["units"]) or len(who) == 12:
            continue
        who.append(Caller(request.location, request.principal))
        number = len(who)
        first, *later = rounds(number, who[-1])
        steps.append(first)
        for step in later:
            answer = place(choices[-1]) if step.round == "place" else units("imperial")
            if step.round == names[0]:
                steps.append(replace(step, answer=answer, state=reply.state))
            steps.append(step)
    if not who:
        return None
    return _case("elsewhere", "States of servers with other keys and another ledger.", who, steps)


def for_one_user(case: Scenario) -> Scenario:
    """Return a case for a server that cannot be told the caller: all calls are one user's."""
    callers = tuple(replace(caller, principal="alice") for caller in case.callers)
    script = tuple(step for step in case.script if not _is_of_another(step))
    return replace(case, callers=callers, script=script)


def _is_of_another(step: Step) -> bool:
    if isinstance(step, Together):
        return any(map(_is_of_another, step.steps))
    return isinstance(step, Send) and step.principal is not None


# --- at random ----------------------------------------------------------------------------------


def at_random(seed: int) -> Iterator[Scenario]:
    """Yield cases without end, the same for the same seed: a few calls of two users, mixed."""
    for number in itertools.count(1):
        yield _drawn(random.Random(f"{seed}/{number}"), number)


def _drawn(draw: random.Random, number: int) -> Scenario:
    odd = (" springfield ", "PORTLAND", "Springfield", "Springfield", "Atlantis")
    locations = (*CITIES, *REPORTS, *odd)
    who: list[Caller] = []
    calls: list[list[Step]] = []
    for call in range(1, draw.randint(2, 4) + 1):
        caller = Caller(draw.choice(locations), draw.choice(("alice", "bob")), draw.random() < 0.9)
        if who and draw.random() < 0.3:
            caller = replace(draw.choice(who), principal=caller.principal)
        who.append(caller)
        calls.append(_life(draw, call, caller))
    steps: list[Step] = []
    while any(calls):
        here = draw.choice([each for each in calls if each])
        step = here.pop(0)
        others = [each for each in calls if each is not here and each and isinstance(each[0], Send)]
        if others and isinstance(step, Send) and draw.random() < 0.15:
            other = draw.choice(others).pop(0)
            assert isinstance(other, Send)
            steps.append(Together((step, other)))
        else:
            steps.append(step)
        if draw.random() < 0.05:
            steps.append(Wait(draw.choice((30, 500, 660))))
    instances: Literal[1, 2] = 1 if draw.random() < 0.6 else 2
    return _case(f"random-{number}", "Calls drawn at random.", who, steps, instances=instances)


def _life(draw: random.Random, call: int, caller: Caller) -> list[Step]:
    """Draw the steps of one call."""
    choices = choices_of(caller.location)
    steps: list[Step] = []
    for step in rounds(call, caller, draw.choice(choices) if choices else "", draw.choice(UNITS)):
        name = step.round
        if name != "first" and draw.random() < 0.35:
            good = "imperial" if name == "units" else choices[0]
            bad = bad_answers("units" if name == "units" else "place", good, "Portland, Maine")
            steps.append(Send(name, draw.choice([*bad, Nothing()]), call=call))
        if name != "first" and draw.random() < 0.15:
            steps.append(Send(name, draw.choice((DECLINE, CANCEL)), call=call))
        if draw.random() < 0.1:
            step = replace(step, extra={draw.choice(("place", "units")): {"units": "imperial"}})
        if draw.random() < 0.15:
            step = replace(step, again=draw.choice(("later", "at once")))
        if name != "first" and draw.random() < 0.1:
            steps.append(replace(step, principal="mallory"))
        steps.append(step)
        if draw.random() < 0.15:
            steps.append(Repeat(call, draw.randint(1, 2)))
        if draw.random() < 0.1:
            break  # and never comes back
    return steps
