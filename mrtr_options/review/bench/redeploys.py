"""The next version of an option file: what its author changes while calls are in flight.

A change is made to the text of an option file: lines are replaced as an author of that style would
replace them (`_EDITS`). A file that no edit fits is left out of the change's schedules. Only what
modern clients see is changed: no legacy call stays open during a redeploy.

Knows `weather`, of which some changes are, and what option files look like.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import mcp_types as types
from pydantic import BaseModel, create_model

from mrtr_options.review.bench.history import Form, form_of
from mrtr_options.review.bench.scenario import Change
from mrtr_options.sdk.questions import Question, request_for
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import Option

# --- the next version of the domain -------------------------------------------------------------


class Consent(BaseModel):
    """Answer to `may_bill`. Its only choice is filled in: whoever accepts the form consents."""

    consent: Literal["yes"] = "yes"


def may_bill(place: str) -> weather.Question[Consent]:
    """Question "consent", which `inserted` puts before the units."""
    return weather.Question("consent", f"The report for {place} is billed. Go on?", Consent)


def _units_reworded(place: str) -> weather.Question[weather.UnitsAnswer]:
    was = weather.which_units(place)
    return weather.Question(was.key, f"Report {place} in which units?", was.answer, was.assumed)


_choices: Any = Literal["metric", "imperial", "kelvin"]
_UnitsWithKelvin = create_model("Units", __base__=weather.UnitsAnswer, units=(_choices, ...))


def _units_with_kelvin(place: str) -> weather.Question[weather.UnitsAnswer]:
    was = weather.which_units(place)
    return weather.Question(was.key, was.message, _UnitsWithKelvin, was.assumed)


def _report_with_kelvin(place: str, answer: weather.UnitsAnswer) -> str:
    if str(answer.units) != "kelvin":
        return weather.report(place, answer)
    today = weather.REPORTS[place]
    return f"{place}: {today.celsius + 273} K, {today.sky}."


def _first_place(location: str) -> str:
    return weather.places_named(location)[0]


def _domain(**changed: Any) -> ModuleType:
    module = ModuleType(weather.__name__)
    module.__dict__.update({**vars(weather), **changed})
    return module


DOMAINS: dict[Change, ModuleType] = {
    "reworded": _domain(which_units=_units_reworded),
    "schema": _domain(which_units=_units_with_kelvin, report=_report_with_kelvin),
    "removed": _domain(only_place=_first_place),
}
"""What replaces `weather` in the next version, where the domain itself changes."""


def questions(change: Change | None, location: str, place: str) -> dict[str, Form]:
    """What a version asks in a clean call, by key.

    Args:
        change: What makes the version; None for the file as it is.
        location: The tool's argument.
        place: The place that is meant.
    """
    found: list[Question[BaseModel]] = []
    if change != "removed" and weather.only_place(location) is None:
        found.append(weather.which_place(location))
    if change == "inserted":
        found.append(may_bill(place))
    if change == "reworded":
        found.append(_units_reworded(place))
    elif change == "schema":
        found.append(_units_with_kelvin(place))
    else:
        found.append(weather.which_units(location if change == "reordered" else place))
    return {question.key: _form_of(request_for(question)) for question in found}


def _form_of(request: types.ElicitRequest) -> Form:
    assert isinstance(request.params, types.ElicitRequestFormParams)
    return form_of(request.params.message, request.params.requested_schema)


# --- the next version of a file -----------------------------------------------------------------

_IMPORT = r"^from mrtr_options.tool import weather$"
_STATE = r"^    place: str \| None = None$"
_WITH_CONSENT = (
    _IMPORT,
    r"\g<0>\nfrom mrtr_options.review.bench.redeploys import Consent, may_bill",
)

Style = tuple[tuple[str, str], ...]
"""Patterns and their replacements, as in `re.sub`; it fits a file in which each pattern is
found.
"""


def _new_domain(change: Change) -> Style:
    new = (
        f'from mrtr_options.review.bench.redeploys import DOMAINS\n\nweather = DOMAINS["{change}"]'
    )
    return ((_IMPORT, new),)


_EDITS: dict[Change, tuple[Style, ...]] = {
    "reworded": (_new_domain("reworded"),),
    "schema": (_new_domain("schema"),),
    "removed": (_new_domain("removed"),),
    "inserted": (
        (  # guards
            _WITH_CONSENT,
            (_STATE, r"\g<0>\n    consent: bool = False"),
            (
                r"^( *)which_units = weather\.which_units\(place\)$",
                r"\1which_consent = may_bill(place)\n"
                r"\1if not state.consent and answer_to(which_consent, ctx, params) is None:\n"
                r"\1    state.place = place\n"
                r"\1    return ask(which_consent, state)\n"
                r"\1state.consent = True\n\n"
                r"\g<0>",
            ),
        ),
        (  # elicit, yield
            _WITH_CONSENT,
            (
                r"^( *)units = (await ctx\.elicit\(|yield )weather\.which_units\(place\)(\)?)$",
                r"\1\2may_bill(place)\3\n\n\g<0>",
            ),
        ),
        (  # steps
            _WITH_CONSENT,
            (
                r"^def units_step\(",
                r"def consent_step(ctx: Context, params: Params, values: Values) -> Question[Consent]:\n"
                r"    return may_bill(values.get('place', PlaceAnswer).place)\n\n\n"
                r"\g<0>",
            ),
            (r"\.step\(\"units\", units_step\)", r".step('consent', consent_step)\g<0>"),
        ),
        (  # resolvers
            _WITH_CONSENT,
            (
                r"^async def which_units\(ctx: Context\[Desk\], place: Place(.*\n.*\n.*\n.*None$)",
                r"async def which_consent(place: Place) -> Elicit[Consent] | None:\n"
                r"    if not isinstance(place, AcceptedElicitation):\n"
                r"        return None\n"
                r"    question = may_bill(place.data.place)\n"
                r"    return Elicit(question.message, question.answer)\n\n\n"
                r"May = Annotated[ElicitationResult[Consent], Resolve(which_consent)]\n\n\n"
                r"async def which_units(ctx: Context[Desk], place: Place, consent: May\1\n"
                r"    if not isinstance(consent, AcceptedElicitation):\n"
                r"        return None",
            ),
            (r"^(async def call_weather\(.*place: Place)", r"\1, consent: May"),
            (
                r"^    if not isinstance\(units, AcceptedElicitation\):$",
                r"    if not isinstance(consent, AcceptedElicitation):\n"
                r"        return no_lookup('consent', consent.action)\n"
                r"\g<0>",
            ),
        ),
    ),
    "reordered": (
        (  # guards
            (_STATE, r"\g<0>\n    units: weather.UnitsAnswer | None = None"),
            (
                r"^( *)place = state\.place or (?s:.*?)return ask\(which_units, state\)$",
                r"\1which_units = weather.which_units(location)\n"
                r"\1units = state.units or answer_to(which_units, ctx, params)\n"
                r"\1if units is None:\n"
                r"\1    return ask(which_units, state)\n\n"
                r"\1place = state.place or weather.only_place(location)\n"
                r"\1if place is None:\n"
                r"\1    which_place = weather.which_place(location)\n"
                r"\1    answer = answer_to(which_place, ctx, params)\n"
                r"\1    if answer is None:\n"
                r"\1        state.units = units\n"
                r"\1        return ask(which_place, state)\n"
                r"\1    place = answer.place",
            ),
        ),
        (  # elicit, yield
            (
                r"^( *)(place = weather\.only_place\(location\)(?s:.*?))"
                r"units = (await ctx\.elicit\(|yield )weather\.which_units\(place\)(\)?)$",
                r"\1units = \3weather.which_units(location)\4\n\n\1\2",
            ),
        ),
        (  # steps
            (
                r"^    place = .*\n    return weather\.which_units\(place\)$",
                r"    return weather.which_units(location_of(params))",
            ),
            (r"(\.step\(\"place\", place_step\))(\.step\(\"units\", units_step\))", r"\2\1"),
        ),
        (  # resolvers
            (
                r"^(async def which_place(?s:.*?)^Place = .*)\n\n\n"
                r"(async def which_units(?s:.*?)^Units = .*)$",
                r"\2\n\n\n\1",
            ),
            (
                r"place: Place(\).*\n.*\n)    if not isinstance\(place, AcceptedElicitation\):\n"
                r"        return None\n"
                r"(.*which_units\()place\.data\.place(\)(?s:.*?)return question\.assumed)$",
                r"location: str\1\2location\3 or UnitsAnswer(units='metric')",
            ),
            (
                r"^(async def which_place\(ctx: Context\[Desk\], location: str)(\).*)(:\n.*\n)",
                r"\1, units: Units\2 | None\3"
                r"    if not isinstance(units, AcceptedElicitation):\n"
                r"        return None\n",
            ),
            (r"place: Place, units: Units", r"units: Units, place: Place"),
            (
                r"^(    if not isinstance\(place, .*\n.*place\.action\)\n)"
                r"(.*units, .*\n.*units\.action\)\n)",
                r"\2\1",
            ),
        ),
    ),
    "effect": (
        (  # under a key of the author's
            (r'^( *await .*)"audit"(, .*desk\.audit\(location.*)$', r'\1"notice"\2\n\g<0>'),
        ),
        ((r"^ *await desk\.audit\(location\).*$", r"\g<0>\n\g<0>"),),
    ),
    "renamed": (((r"\bcall_weather", "give_weather"),),),
}
"""How each change is made to a file, style by style; the first that fits is taken.

`effect` puts a second audit above the first; both are counted as audits. `renamed` gives the file
another name, too (`write`).
"""


@cache
def source(option: Option, change: Change) -> str | None:
    """The next version of an option's file, or None where it is not defined."""
    if not option.path.is_file():  # a server that is reached by URL
        return None
    text = option.path.read_text(encoding="utf-8")
    for style in _EDITS[change]:
        if all(re.search(old, text, re.MULTILINE) for old, _ in style):
            for old, new in style:
                text = re.sub(old, new, text, flags=re.MULTILINE)
            return text
    return None


@cache
def covers(option: Option, change: Change) -> bool:
    """Whether there is a next version of an option's file with this change."""
    return source(option, change) is not None


def write(option: Option, change: Change, folder: Path) -> Path:
    """Write the next version of an option's file, which the change has to cover, to a folder."""
    text = source(option, change)
    if text is None:
        raise ValueError(f"there is no version of {option.path.name} with the change {change!r}")
    # Names derived from the module's (I's keys) change where that is the change, and nowhere else.
    name = option.path.name if change != "renamed" else f"renamed_{option.path.name}"
    path = folder / change / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path
