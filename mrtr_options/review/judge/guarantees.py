"""The guarantees that options declare besides the contract, as properties; and the check of a run.

An option's guarantees are the data beside its code (`tool.guarantees`), spelled out here one by
one. Knows readings of histories and schedules; nothing of how they came about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.messages import Era, Reply
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.judge.contract import RULES, violations
from mrtr_options.review.judge.contract.rules import Rule
from mrtr_options.review.judge.observation import Observation, observe
from mrtr_options.review.judge.properties import Property
from mrtr_options.tool import weather
from mrtr_options.tool.guarantees import EVERY_DELIVERY, Guarantees
from mrtr_options.tool.notation import LEGACY_SHIM, SINGLE_USE

ILLINOIS = weather.report("Springfield, Illinois", weather.UnitsAnswer(units="metric"))
TOKYO = weather.report("Tokyo, Japan", weather.UnitsAnswer(units="metric"))
TOKYO_ASSUMED = weather.report("Tokyo, Japan", weather.UnitsAssumed(units="metric"))
ASKED_PLACE = weather.which_place("Springfield").message
ASKED_UNITS = weather.which_units("Springfield, Illinois").message

Check = Callable[[Observation], str | None]
"""A function that returns the problem of an observation, or None."""

Broken = list[tuple[Property, Observation]]
"""The rules of the contract and the guarantees that do not hold, each with an observation."""


@dataclass(frozen=True)
class Guarantee(Property):
    """A guarantee that an option declares besides the contract.

    Attributes:
        schedules: The schedules that can show that it is broken.
        find_problem: Returns the problem of an observation of such a schedule, or None.
        eras: The eras of the clients that can show it.
        needs_two: Whether it takes two instances to show it.
    """

    noun: ClassVar[str] = "guarantee"
    schedules: tuple[str, ...]
    find_problem: Check
    eras: tuple[Era, ...] = ("modern",)
    needs_two: bool = False

    def applies_to(self, schedule: str, era: Era, deployment: str) -> bool:
        if era not in self.eras or (self.needs_two and deployment == "one"):
            return False
        return schedule in self.schedules


# --- checks -------------------------------------------------------------------------------------

_ASPECTS: dict[str, tuple[str, Callable[[Observation], object]]] = {
    "outcome": ("the outcome", lambda seen: seen.outcome),
    "text": ("the text", lambda seen: seen.text),
    "code": ("the error", lambda seen: seen.code),
    "asked": ("what the user was asked", lambda seen: list(seen.questions)),
    "errors": ("what was refused", lambda seen: [reply.code for reply in seen.refusals]),
    "ended": ("the task", lambda seen: (seen.replies[-1].status, seen.replies[-1].code)),
    "audits": ("the number of audits", lambda seen: seen.effects["audit"]),
    "bills": ("the number of bills", lambda seen: seen.effects["bill"]),
    "agreed": ("that a request twice gets one response", lambda seen: seen.agreed),
    "counts": ("audit/bill", lambda seen: f"{seen.effects['audit']}/{seen.effects['bill']}"),
    "declined": ("that the text says 'declined'", lambda seen: "declined" in (seen.text or "")),
    "named": (
        "that an error -32602 names the question",
        lambda seen: any(map(_is_about_units, seen.refusals)),
    ),
    "settled": (
        "that it ends with one bill, or as cancelled",
        lambda seen: (seen.outcome, seen.most("bill")) in _ENDS,
    ),
}
"""The aspects of an observation that a check can compare: description and accessor."""


def _is(**wanted: object) -> Check:
    """Return a check that these aspects have these values."""

    def check(seen: Observation) -> str | None:
        for name, value in wanted.items():
            words, aspect = _ASPECTS[name]
            came = aspect(seen)
            if came != value:
                said = f" ({seen.message})" if name == "outcome" and seen.message else ""
                return f"{words} is {came!r}{said}, not {value!r}"
        return None

    return check


def _is_about_units(refusal: Reply) -> bool:
    return refusal.code == -32602 and "units" in (refusal.message or "")


_ENDS = ("completed", 1), ("cancelled", 0), ("cancelled", 1)
_COMPLETED = {"outcome": "completed", "text": ILLINOIS}
_WHOLE = {**_COMPLETED, "asked": [ASKED_PLACE, ASKED_UNITS], "bills": 1}
_REFUSED = _is(outcome="refused", code=-32602, bills=0)

# --- an option's own guarantees -------------------------------------------------------------------


def guarantees_of(subject: Subject) -> Guarantees | None:
    """Return the guarantees of an option inside its wrappers; None if it declares none."""
    own = subject.option.guarantees
    if own is None:
        return None
    if SINGLE_USE in subject.wrappers:
        # The guard protects every round but the first. An option whose audit happens once wherever
        # its bill does makes both in the last round.
        both_in_last_round = bool(own.bill_once) and own.audit_once == own.bill_once
        audit_once = EVERY_DELIVERY if both_in_last_round else own.audit_once
        own = own.model_copy(update={"audit_once": audit_once, "bill_once": EVERY_DELIVERY})
    if LEGACY_SHIM in subject.wrappers:
        modern = {"legacy_tokyo": own.modern_tokyo, "legacy_springfield": own.modern_springfield}
        own = own.model_copy(update={"asks_legacy": True, **modern})
    return own


def held_to(own: Guarantees | None) -> list[Property]:
    """Return the properties that an option is held to.

    They are the rules of the contract without the option's departures, and its own guarantees.

    Args:
        own: The option's guarantees; None for a stranger that says nothing.
    """
    if own is None:
        return [*RULES.values()]
    return [each for each in (*RULES.values(), *declared(own)) if each.name not in own.departs]


def declared(own: Guarantees) -> list[Guarantee]:
    """Return the guarantees that an option declares, one for each schedule."""
    found = [
        _guarantee_counts("modern", "clean-tokyo", own.modern_tokyo),
        _guarantee_counts("modern", "clean-springfield", own.modern_springfield),
        _guarantee_counts("legacy", "clean-tokyo", own.legacy_tokyo),
        _guarantee_counts("legacy", "clean-springfield", own.legacy_springfield),
        Guarantee(
            "old-clients-are-asked" if own.asks_legacy else "old-clients-are-not-asked",
            "An old client gets the whole conversation."
            if own.asks_legacy
            else "An old client gets the tool's fallback.",
            ("clean-springfield",),
            _is(asked=[ASKED_PLACE, ASKED_UNITS] if own.asks_legacy else []),
            ("legacy",),
        ),
        Guarantee(
            "old-clients-get-a-result",
            "Tokyo completes for an old client; Springfield does if it is asked, else is an error.",
            ("clean-tokyo", "clean-springfield"),
            _result_of_old_client(own.asks_legacy),
            ("legacy",),
        ),
        Guarantee(
            f"re-execution-{own.reexecution}",
            "The author's code runs once, from the first line to the last."
            if own.reexecution == "never"
            else "The author's code is entered again in later rounds.",
            ("clean-springfield",),
            _check_entered_once if own.reexecution == "never" else _check_entered_again,
        ),
        _READABLE if own.readable else SEALED,
        _LOST_KEY,
    ]
    for slug in own.survives:
        found.append(
            Guarantee(
                f"survives-{slug}",
                f"A call survives a {slug} between two rounds.",
                (slug, "key-rotation") if slug == "restart" else (slug,),
                _is(**_COMPLETED, bills=1),
                needs_two=slug == "failover",
            )
        )
    found += [_guarantee_once("audit", slug) for slug in own.audit_once]
    found += [_guarantee_once("bill", slug) for slug in own.bill_once]
    return found + list(_TASKS if own.task else ())


def _result_of_old_client(asks: bool) -> Check:
    def check(seen: Observation) -> str | None:
        if seen.schedule == "clean-tokyo":
            return _is(outcome="completed", text=TOKYO if asks else TOKYO_ASSUMED)(seen)
        return _is(**_COMPLETED)(seen) if asks else _is(outcome="tool_error")(seen)

    return check


_TASKS = (
    Guarantee(
        "a-task-is-the-same-call",
        "A task asks what the call asks, each question once, bills once and has the call's result.",
        ("task-clean",),
        _is(**_WHOLE, audits=1),
    ),
    Guarantee(
        "a-lost-handle-bills-nothing",
        "A task whose handle was lost waits for its user and is not billed.",
        ("task-lost-create",),
        _is(**_WHOLE),
    ),
    Guarantee(
        "a-tasks-answers-are-taken-once",
        "An answer that is delivered twice, later or at once, changes nothing.",
        ("task-lost-update", "task-update-twice", "task-update-at-once"),
        _is(**_WHOLE, audits=1, agreed=True),
    ),
    Guarantee(
        "a-tasks-settled-answers-stay",
        "A different answer to a question that was answered is not looked at.",
        ("task-two-answers",),
        _is(**_WHOLE, errors=[]),
    ),
    Guarantee(
        "only-open-keys-count",
        "Keys that are not open are not looked at; an update without the open ones changes"
        " nothing.",
        ("task-unknown-keys", "task-partial-keys"),
        _is(**_WHOLE, errors=[]),
    ),
    Guarantee(
        "a-tasks-answers-are-checked",
        "An answer that does not fit is refused with -32602 naming the question, which stays open.",
        ("task-bad-answer",),
        _is(**_WHOLE, named=True),
    ),
    Guarantee(
        "a-no-completes-the-task",
        "A declined question completes the task with a plain text, and no bill.",
        ("task-decline",),
        _is(outcome="completed", bills=0, declined=True),
    ),
    Guarantee(
        "a-task-asks-only-the-willing",
        "A task of a client that cannot be asked completes with the tool's error.",
        ("task-cannot-ask",),
        _is(outcome="tool_error", asked=[], bills=0),
    ),
    Guarantee(
        "a-task-is-its-principals",
        "To anybody else a task is unknown (-32602), whatever they want of it.",
        ("task-other-principal",),
        _is(**_WHOLE, errors=[-32602] * 3),
    ),
    Guarantee(
        "a-guessed-id-is-unknown",
        "There is no task under an id that was made up.",
        ("task-guessed",),
        _REFUSED,
    ),
    Guarantee(
        "tasks-are-for-those-who-declare-them",
        "A request about a task that does not declare the extension is refused with -32021.",
        ("task-undeclared",),
        _is(code=-32021),
    ),
    Guarantee(
        "a-cancelled-task-is-over",
        "A task that is cancelled while it waits ends so, whatever comes after, and is not billed.",
        ("task-cancel", "task-killed-cancelled"),
        _is(outcome="cancelled", bills=0, agreed=True),
    ),
    Guarantee(
        "a-finished-task-stays-finished",
        "To cancel a task that is over changes nothing, and its result outlives its instance.",
        ("task-cancel-finished", "task-killed-completed"),
        _is(**_WHOLE, agreed=True),
    ),
    Guarantee(
        "a-failed-task-stays-failed",
        "A task that fails ends with -32603, says the same on the next instance, and has no"
        " effect.",
        ("task-killed-failed",),
        _is(ended=("failed", -32603), audits=0, bills=0, agreed=True),
    ),
    Guarantee(
        "a-task-is-settled-once",
        "A last answer and a cancellation at the same moment end in one of the two, and stay"
        " there.",
        ("task-cancel-races",),
        _is(settled=True, agreed=True),
    ),
    Guarantee(
        "a-task-expires",
        "After its time there is no such task, and nothing is billed.",
        ("task-expired",),
        _REFUSED,
    ),
    Guarantee(
        "a-task-survives-its-worker",
        "A task whose instance dies, at work or waiting, is finished by another one.",
        ("task-killed-working", "task-killed-working-keyed", "task-killed-waiting"),
        _is(**_COMPLETED, audits=1),
    ),
    Guarantee(
        "a-killed-task-bills-once-where-keys-are-honoured",
        "An effect whose record was lost with its instance is done again, under the same key.",
        ("task-killed-working-keyed", "task-killed-waiting"),
        _is(bills=1),
    ),
)


def undeclared(own: Guarantees) -> list[Guarantee]:
    """Return the guarantees that an option does not give, to try whether it has them."""
    every = {"audit_once": EVERY_DELIVERY, "bill_once": EVERY_DELIVERY}
    more = declared(own.model_copy(update={"survives": ("failover", "restart"), **every}))
    names = {each.name for each in declared(own)}
    return [each for each in more if each.name not in names]


def _guarantee_once(effect: str, slug: str) -> Guarantee:
    return Guarantee(
        f"{effect}-once-{slug}",
        f"Under {slug}, the {effect} happens once.",
        (slug,),
        _is(**_COMPLETED, **{f"{effect}s": 1}),
    )


def _guarantee_counts(era: Era, slug: str, counts: str) -> Guarantee:
    says = f"A clean call has audit/bill {counts}."
    return Guarantee(f"{era}-{slug}-counts", says, (slug,), _is(counts=counts), (era,))


def _check_entered_once(seen: Observation) -> str | None:
    again = [f"{name} {times} times" for name, times in seen.entries.items() if times > 1]
    return f"the author's code was entered again: {', '.join(again)}" if again else None


def _check_entered_again(seen: Observation) -> str | None:
    if seen.entries and max(seen.entries.values()) == 1:
        return "the author's code was entered once"
    return None


def _check_readable(seen: Observation) -> str | None:
    return "the state cannot be read" if seen.readable is False else None


def _check_sealed(seen: Observation) -> str | None:
    return "the state can be read" if seen.readable else None


_READABLE = Guarantee(
    "state-readable", "The client can read the state.", ("clean-springfield",), _check_readable
)
SEALED = Guarantee(
    "state-sealed", "The client cannot read the state.", ("clean-springfield",), _check_sealed
)

_LOST_KEY = Guarantee(
    "a-lost-key-is-a-refusal",
    "A server with another key refuses the states of the old one.",
    ("key-lost",),
    _REFUSED,
)

# --- judging ------------------------------------------------------------------------------------


def judge_history(history: History, own: Guarantees | None) -> Observation:
    """Return the summary of a history, with its broken rules and guarantees.

    It is held against the contract and against all that may be declared. `own` is what its subject
    declares.
    """
    seen = observe(history)
    breaks = {each.property: each.why() for each in reversed(violations(history))}
    for each in [] if own is None else [*declared(own), *undeclared(own)]:
        if each.applies_to(history.scenario.name, history.era, history.deployment):
            why = each.find_problem(seen)
            if why is not None:
                breaks.setdefault(each.name, why)
    return replace(seen, breaks=breaks)


def _is_applicable(seen: Observation, own: Guarantees | None) -> bool:
    """Return whether an option can be held to its guarantees there.

    Over two instances without stickiness an option that lives in one instance's memory has no call
    to be judged by; the contract lets it refuse such a call.
    """
    if seen.deployment == "one" or seen.schedule in ("sticky", "missent"):
        return True
    return own is None or "failover" in own.survives


def find_broken(
    observations: Iterable[Observation], properties: Iterable[Property], own: Guarantees | None
) -> Broken:
    """Return every property that an observation lacks, with the observation.

    The observation's `breaks` has the reason.

    Args:
        observations: The observations of one subject, made by `judge_history`.
        properties: The properties that it is held to.
        own: The option's guarantees, which say where it can be held to them.
    """
    every = list(properties)
    return [
        (each, seen)
        for seen in observations
        for each in every
        if each.name in seen.breaks and (isinstance(each, Rule) or _is_applicable(seen, own))
    ]


def find_kept(
    observations: Sequence[Observation], properties: Iterable[Property], own: Guarantees
) -> list[Property]:
    """Return the properties that some observation could have lacked and none did.

    Args:
        observations: The observations of one subject, made by `judge_history`.
        properties: The properties to choose from.
        own: The option's guarantees. They leave out the runs in which it cannot be held to them.
    """
    seen = [each for each in observations if _is_applicable(each, own)]
    return [
        each
        for each in properties
        if any(each.applies_to(here.schedule, here.era, here.deployment) for here in seen)
        and not any(each.name in here.breaks for here in seen)
    ]
