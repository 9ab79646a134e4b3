"""The search: random schedules, held against the reference model.

A script is a list of steps, each a clean round with some twists, so what fails *is* a schedule: it
shrinks to the fewest steps and twists that still fail, and prints as source that can be pasted into
`schedules`. Only the modern era, and only in memory.

Knows the rest of the review, and hypothesis, which is a development dependency: the command line
asks for it before it imports this module.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any, Literal, cast

import anyio
import anyio.lowlevel
import mcp_types as types
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure

from mrtr_options.bench.history import (
    Effect,
    Elapsed,
    History,
    Received,
    Reply,
    Request,
    Restarted,
    Sent,
)
from mrtr_options.bench.runs import Cell, history_of
from mrtr_options.bench.schedules import (
    CANCEL,
    DECLINE,
    MISSOURI,
    Accept,
    Nothing,
    Refuse,
    Restart,
    Roots,
    RoundName,
    Schedule,
    Send,
    Step,
    Wait,
)
from mrtr_options.bench.subjects import SINGLE_USE, Column, all_columns
from mrtr_options.judge.model import Model
from mrtr_options.tool import weather

Place = Literal["one", "two"]
PLACES: tuple[Place, ...] = ("one", "two")

Wrong = tuple[str, str]
"""What was expected, and what was seen."""

# --- random schedules ---------------------------------------------------------------------------

TWISTS: tuple[dict[str, Any], ...] = (
    {"lost": True},
    {"again": "later"},
    {"again": "at once"},
    {"answer": MISSOURI},
    {"answer": Accept({"units": "imperial"})},
    {"answer": Accept({"units": "kelvin"})},
    {"answer": Accept(None)},
    {"answer": DECLINE},
    {"answer": CANCEL},
    {"answer": Refuse("decline", {"units": "metric"})},
    {"answer": Roots()},
    {"answer": Nothing()},
    {"extra": {"place": MISSOURI.content}},
    {"extra": {"units": {"units": "imperial"}}},
    {"extra": {"horoscope": {"sign": "leo"}}},
    {"asks": False},
    {"edit": "drop"},
    {"edit": "flip"},
    {"edit": "truncate"},
    {"state_of": 1},
    {"state_of": 2},
    {"to": 0},
    {"to": 1},
    {"location": "Portland"},
    {"principal": "mallory"},
)
"""What may deviate from a clean round."""

BETWEEN: tuple[Step, ...] = (
    Wait(30.0),
    Wait(540.0),  # a state is good for 600
    Wait(3600.0),
    Restart("same"),
    Restart("rotated"),
    Restart("new"),
)
"""What may happen between two rounds."""


@dataclass(frozen=True)
class Move:
    """A round to come.

    Attributes:
        call: Which call.
        round: Which round; None for the one after those that the call went through so far.
        twists: How it deviates from a clean round.
    """

    call: int
    round: RoundName | None
    twists: list[dict[str, Any]]


MOVES: st.SearchStrategy[Move | Step] = st.one_of(
    st.builds(Move, st.just(1), st.none(), st.just([])),
    st.builds(
        Move,
        st.sampled_from((1, 1, 2)),
        st.sampled_from((None, "units", "place", "first")),
        st.lists(st.sampled_from(TWISTS), max_size=2),
    ),
    st.sampled_from(BETWEEN),
)


def _schedule(location: str, sticky: bool, moves: list[Move | Step]) -> Schedule:
    rounds: tuple[RoundName, ...] = (
        ("first", "units") if location == "Tokyo" else ("first", "place", "units")
    )
    reached = Counter[int]()
    script: list[Step] = []
    for move in moves:
        if not isinstance(move, Move):
            script.append(move)
            continue
        name = move.round
        if name is None:
            name = rounds[min(reached[move.call], len(rounds) - 1)]
            reached[move.call] += 1
        send = Send(name, call=move.call)
        for twist in move.twists:
            send = replace(send, **twist)
        script.append(send)
    sends = [step for step in script if isinstance(step, Send)]
    calls = max((max(send.call, send.state_of or 1) for send in sends), default=1)
    return Schedule(
        "found", "Found by the search.", tuple(script), location=location, calls=calls, sticky=sticky
    )


SCHEDULES_TO_TRY = st.builds(
    _schedule,
    st.sampled_from(("Springfield",) * 6 + ("Tokyo",) * 3 + ("Atlantis",)),
    st.booleans(),
    st.lists(MOVES, min_size=1, max_size=14),
)


def source(value: Any) -> str:
    """A schedule, or anything that is in one, as Python: to be pasted into `schedules`."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return (
            "(" + "".join(f"{source(part)}, " for part in cast("tuple[Any, ...]", value)).rstrip() + ")"
        )
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return "{" + ", ".join(f"{source(key)}: {source(part)}" for key, part in items) + "}"
    if not is_dataclass(value):
        return repr(value)
    arguments: list[str] = []
    for each in fields(value):
        given_value = getattr(value, each.name)
        needed = each.default is MISSING and each.default_factory is MISSING
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if needed:
            arguments.append(source(given_value))
        elif given_value != default:
            arguments.append(f"{each.name}={source(given_value)}")
    return f"{type(value).__name__}({', '.join(arguments)})"


# --- one schedule -------------------------------------------------------------------------------


class Disagreement(AssertionError):
    """A deployment is not what the model says, or breaks what must hold without any model.

    Attributes:
        column: What was deployed.
        place: On how many instances.
        schedule: What was played.
        expected, seen: The first thing that was not as it should be.
        always: Whether it happened again when the schedule was played again.
    """

    def __init__(
        self, column: Column, place: Place, schedule: Schedule, expected: str, seen: str
    ) -> None:
        super().__init__(f"{column.name} on {place}: expected {expected}; saw {seen}")
        self.column, self.place, self.schedule = column, place, schedule
        self.expected, self.seen = expected, seen
        self.always = True

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "column": self.column.name,
            "deployment": self.place,
            "schedule": source(self.schedule),
            "expected": self.expected,
            "seen": self.seen,
            "always": self.always,
        }


def try_schedule(column: Column, place: Place, schedule: Schedule) -> None:
    """Play a schedule, in each order of deliveries at once, and compare.

    Raises:
        Disagreement: Something was not as it should be.
    """
    at_once = any(isinstance(step, Send) and step.again == "at once" for step in schedule.script)
    for turns in (1, 0, 3) if at_once else (1,):
        try:
            wrong = anyio.run(_wrong, column, place, schedule, turns)
        except Exception as error:  # report what was played with every error
            cause = _cause(error)
            seen = f"{type(cause).__name__}: {cause}"
            raise Disagreement(
                column, place, schedule, "the schedule to be played to its end", seen
            ) from error
        if wrong:
            raise Disagreement(column, place, schedule, *wrong[0])


def _cause(error: Exception) -> Exception:
    """The first error inside the exception groups of task groups."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


async def _wrong(column: Column, place: Place, schedule: Schedule, turns: int) -> list[Wrong]:
    """Play a schedule; the first difference from the model, if any."""
    before = len(anyio.get_running_tasks())
    history = await history_of(Cell(column, schedule, "modern", place), turns=turns)
    for _ in range(_TURNS_TO_END):
        await anyio.lowlevel.checkpoint()
    found = compare(column, history)
    left = len(anyio.get_running_tasks()) - before
    if left:
        found.append(
            ("nothing to run on after the end", f"{left} task" if left == 1 else f"{left} tasks")
        )
    return found


_TURNS_TO_END = 5
"""How many turns of the event loop a task that was told to stop may take, once all is closed."""


def compare(column: Column, history: History) -> list[Wrong]:
    """Hold a history against the model, and against what holds without any model.

    Args:
        column: What was played. There must be a model of it.
        history: Of a modern client that takes no tasks, without faults.
    """
    model = Model(column)
    wrong: list[Wrong] = []
    effects: Counter[tuple[str, str]] = Counter()
    billable = responses = 0
    under_way: dict[int, Request] = {}
    for event in history.events:
        match event:
            case Sent():
                under_way[event.exchange] = event.request
            case Received(reply=reply):
                at_once = len(under_way) > 1
                request = under_way.pop(event.exchange)
                responses += 1
                billable += _may_bill(request)
                said = model.respond(event.instance, request)
                if reply.state is not None:
                    model.hand_out(reply.state, request, said)
                expected: list[str] = []
                if not _fits(reply, said.reply) and not (
                    # On a slow machine the second of two deliveries gives up waiting for the first.
                    SINGLE_USE in column.wrappers and at_once and reply.code == types.INTERNAL_ERROR
                ):
                    expected.append(_shown(said.reply))
                if reply.questions and not request.asks:
                    expected.append("no question to a client that cannot be asked")
                if reply.text is not None and reply.text not in _TEXTS:
                    expected.append("a text of the tool's")
                wrong += [(f"response {responses} to be {each}", _shown(reply)) for each in expected]
            case Restarted(keys=keys):
                model.restart(keys)
            case Elapsed(seconds=seconds):
                model.wait(seconds)
            case Effect(effect=effect, absorbed=False):
                effects[effect.kind, effect.subject] += 1
            case _:
                pass
    if effects != model.world.effects:
        wrong.append((_counted(model.world.effects), _counted(effects)))
    bills = sum(count for (kind, _), count in effects.items() if kind == "bill")
    if bills > billable:
        wrong.append((f"at most {billable} rounds to be billed for", str(bills)))
    return wrong


_TEXTS = {
    *(
        weather.report(place, answer)
        for place in weather.REPORTS
        for answer in (
            weather.UnitsAnswer(units="metric"),
            weather.UnitsAnswer(units="imperial"),
            weather.UnitsAssumed(units="metric"),
        )
    ),
    *(end(key) for end in (weather.declined, weather.cancelled) for key in ("place", "units")),
    *(weather.which_place(location).unasked for location in ("Springfield", "Portland")),
    "Unknown location: 'Atlantis'.",
}


def _may_bill(request: Request) -> bool:
    """Whether a request brings valid units, or its client cannot be asked for them."""
    answer = (request.answers or {}).get("units")
    return not request.asks or (
        isinstance(answer, types.ElicitResult)
        and answer.action == "accept"
        and (answer.content or {}).get("units") in ("metric", "imperial")
    )


def _fits(reply: Reply, expected: Reply) -> bool:
    return reply.same_as(expected) and (expected.message or "") in (reply.message or "")


def _shown(reply: Reply) -> str:
    if reply.nothing is not None:
        return f"no response ({reply.nothing})"
    if reply.code is not None:
        return f"a refusal with {reply.code}: {reply.message}"
    if reply.text is not None:
        return f"the {'error' if reply.is_error else 'text'} {reply.text!r}"
    return f"the question {' and '.join(map(repr, reply.questions.values()))}"


def _counted(effects: Counter[tuple[str, str]]) -> str:
    return (
        ", ".join(f"{count} {kind} of {on}" for (kind, on), count in sorted(effects.items()))
        or "no effect"
    )


# --- many schedules -----------------------------------------------------------------------------


def known_columns() -> list[Column]:
    """Every column that there is a model of."""
    return [column for column in all_columns() if Model.knows(column)]


def search(
    columns: Sequence[Column],
    *,
    examples: int,
    seed: int,
    seconds: float = math.inf,
    on_played: Callable[[], None] = lambda: None,
) -> Disagreement | None:
    """Try schedules until one disagrees; then find the smallest that does.

    Args:
        columns: What to try them on.
        examples: How many, at most.
        seed: The same one tries the same schedules.
        seconds: Begin no more after this time.
        on_played: Told of each schedule, also of those that were tried to make one smaller.
    """
    found: list[Disagreement] = []
    end = time.monotonic() + seconds

    @seeded(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.sampled_from(columns), st.sampled_from(PLACES), SCHEDULES_TO_TRY)
    def tries(column: Column, place: Place, schedule: Schedule) -> None:
        if not found and time.monotonic() > end:
            return
        try:
            try_schedule(column, place, schedule)
        except Disagreement as disagreement:
            found.append(disagreement)
            raise
        finally:
            on_played()

    try:
        tries()
    except (Disagreement, FlakyFailure) as failure:
        found[-1].always = isinstance(failure, Disagreement)
        return found[-1]
    return None
