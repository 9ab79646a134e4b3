"""Option B with one change: it tells questions apart by their position, and checks no accepted answer.

Seen in replays that number a handler's questions, and with authors who look only at whether a form was
accepted. For the page "Questions by position".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp_types import CallToolResult, ElicitResult

from mrtr_options.sdk.exception_shim import ReplayContext, exception_shim
from mrtr_options.sdk.questions import AnswerT
from mrtr_options.tool import weather
from mrtr_options.tool.server import Params, build_server, location_of, text


class ByPosition(ReplayContext[weather.Desk]):
    """A replay that names questions by their position, and takes accepted answers as they are."""

    def __init__(self, ctx: ReplayContext[weather.Desk]) -> None:
        self.__dict__.update(vars(ctx))
        self.asked = 0

    async def elicit(self, question: weather.Question[AnswerT]) -> AnswerT:
        self.asked += 1
        key = str(self.asked)
        given = (self._params.input_responses or {}).get(key)
        if isinstance(given, ElicitResult) and given.action == "accept":
            self._state.accepted[key] = dict(given.content or {})
        return await super().elicit(replace(question, key=key, answer=unchecked(question.answer)))


def unchecked(answer: type[AnswerT]) -> type[AnswerT]:
    """The same form, for which every content is good."""

    def taken(content: dict[str, Any], **_: Any) -> AnswerT:
        return answer.model_construct(**content)

    same: dict[str, Any] = {"__doc__": answer.__doc__, "model_validate": staticmethod(taken)}
    return type(answer.__name__, (answer,), same)


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool."""
    ctx = ByPosition(ctx)
    desk = ctx.lifespan_context
    location = location_of(params)

    await desk.audit(location)  # the hazard above the question: once per round, unseen

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location))
        place = answer.place

    units = await ctx.elicit(weather.which_units(place))

    await desk.bill(place)
    return text(weather.report(place, units))


server = build_server("weather-b", exception_shim(call_weather))
