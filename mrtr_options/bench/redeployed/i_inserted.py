"""Option I, with a question inserted before the units."""

from __future__ import annotations

from typing import Annotated

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from mrtr_options.bench.redeploys import Consent, may_bill
from mrtr_options.sdk.questions import declares_forms
from mrtr_options.tool import weather
from mrtr_options.tool.server import build_high_tier
from mrtr_options.tool.weather import Desk, PlaceAnswer, UnitsAnswer


async def which_place(ctx: Context[Desk], location: str) -> Elicit[PlaceAnswer] | PlaceAnswer:
    """Which place is meant; no question if there is only one."""
    # No effects in a resolver: this line runs again in every round.
    try:
        place = weather.only_place(location)
    except weather.UnknownPlace as unknown:
        raise ToolError(str(unknown)) from unknown
    if place is not None:
        return PlaceAnswer(place=place)
    question = weather.which_place(location)
    if not declares_forms(ctx.request_context):
        raise ToolError(question.unasked)
    return Elicit(question.message, question.answer)


Place = Annotated[ElicitationResult[PlaceAnswer], Resolve(which_place)]


async def which_consent(place: Place) -> Elicit[Consent] | None:
    """Whether it may be billed; no question if there is no place."""
    if not isinstance(place, AcceptedElicitation):
        return None
    question = may_bill(place.data.place)
    return Elicit(question.message, question.answer)


May = Annotated[ElicitationResult[Consent], Resolve(which_consent)]


async def which_units(
    ctx: Context[Desk], place: Place, consent: May
) -> Elicit[UnitsAnswer] | UnitsAnswer | None:
    """Which units to report in; no question if there is no place or no consent."""
    if not isinstance(place, AcceptedElicitation) or not isinstance(consent, AcceptedElicitation):
        return None
    question = weather.which_units(place.data.place)
    if not declares_forms(ctx.request_context):
        return question.assumed
    return Elicit(question.message, question.answer)


Units = Annotated[ElicitationResult[UnitsAnswer], Resolve(which_units)]
Location = Annotated[str, Field(min_length=1, max_length=100)]


def no_lookup(key: str, action: str) -> str:
    """The result where the user said no; the SDK's own would be an error."""
    return weather.declined(key) if action == "decline" else weather.cancelled(key)


async def call_weather(
    ctx: Context[Desk], location: Location, place: Place, consent: May, units: Units
) -> str:
    """The weather tool, once there is nothing left to ask."""
    desk = ctx.request_context.lifespan_context

    await desk.audit(location)  # no hazard: but an abandoned call is never audited

    if not isinstance(place, AcceptedElicitation):
        return no_lookup("place", place.action)
    if not isinstance(consent, AcceptedElicitation):
        return no_lookup("consent", consent.action)
    if not isinstance(units, AcceptedElicitation):
        return no_lookup("units", units.action)

    await desk.bill(place.data.place)
    return weather.report(place.data.place, units.data)


server = build_high_tier("weather-i", call_weather)
