"""What a clean call of an option must look like, and where an observation differs from it.

Derived from the option's guarantees, the era, the location and the scripted user (`observe.agreeable`),
who takes the first choice of every form: the first place of that name, and metric units.
Knows `weather`, `guarantees` and what an observation is.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrtr_options.bench.observe import Era, Observation, Stood
from mrtr_options.tool import weather
from mrtr_options.tool.guarantees import Guarantees


@dataclass(frozen=True, slots=True)
class Expected:
    """What one clean call must look like.

    Attributes:
        text: The result's text.
        is_error: Whether the result is an error.
        questions: The messages of the questions the user sees, in order.
        audits: How many audits, as the promise has it; None where nothing is promised.
        bills: How many bills.
    """

    text: str
    is_error: bool
    questions: tuple[str, ...]
    audits: str | None
    bills: str


def expected(guarantees: Guarantees, era: Era, location: str) -> Expected:
    """What a clean call must look like.

    An unambiguous location is held to the promise for Tokyo, an ambiguous one to that for
    Springfield. For an unknown place there is no promise but an error and no bill.
    """
    try:
        places = weather.places_named(location)
    except weather.UnknownPlace as unknown:
        return Expected(str(unknown), is_error=True, questions=(), audits=None, bills="0")
    place, ambiguous = places[0], len(places) > 1
    if era == "modern":
        effects = guarantees.modern_springfield if ambiguous else guarantees.modern_tokyo
    else:
        effects = guarantees.legacy_springfield if ambiguous else guarantees.legacy_tokyo
    audits, _, bills = effects.partition("/")

    if era == "modern" or guarantees.asks_legacy:
        answer = weather.UnitsAnswer(units="metric")
        questions = (weather.which_units(place).message,)
        if ambiguous:
            questions = (weather.which_place(location).message, *questions)
        return Expected(weather.report(place, answer), False, questions, audits, bills)
    if ambiguous:
        return Expected(weather.which_place(location).unasked, True, (), audits, bills)
    assumed = weather.UnitsAssumed(units="metric")
    return Expected(weather.report(place, assumed), False, (), audits, bills)


def differences(seen: Observation, guarantees: Guarantees) -> list[str]:
    """Where a clean call with the scripted user is not what was promised, one line each."""
    promised = expected(guarantees, seen.era, seen.location)
    outcome = seen.outcome
    audits, bills = str(seen.effects["audit"]), str(seen.effects["bill"])
    questions = tuple(question.message for question in seen.questions)
    found: list[str] = []
    if seen.task and not any(isinstance(event, Stood) for event in seen.events):
        found.append("the client takes tasks and was given none")
    if outcome.code is not None:
        found.append(f"the call failed with {outcome.code}: {outcome.text}")
    elif outcome.text != promised.text:
        found.append(f"the text is {outcome.text!r}, expected {promised.text!r}")
    elif outcome.is_error != promised.is_error:
        found.append(f"is_error is {outcome.is_error}, expected {promised.is_error}")
    if questions != promised.questions:
        found.append(f"the questions are {list(questions)}, expected {list(promised.questions)}")
    if promised.audits is not None and audits != promised.audits:
        found.append(f"audits: {audits}, promised {promised.audits}")
    if bills != promised.bills:
        found.append(f"bills: {bills}, promised {promised.bills}")
    return found
