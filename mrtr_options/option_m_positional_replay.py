"""Option M, positional replay: B, and an answer belongs to whatever question has its number.

What the author writes: `await ctx.elicit()`, as in B. No question needs a name.

What the SDK does: replays the handler in every round and counts its questions. The first answer
goes to the first question that is asked now, the second to the second.

When to reach for it: never. J has the same author code with a key for each question and effect.

When not: always. Every effect above a question runs once per round, as in B. And a question that is
added, removed or moved shifts the numbers under calls in flight: an old answer is taken for another
question wherever it fits that question's form, and ends the call where it does not.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.sdk.positional_replay import ReplayContext, positional_replay
from mrtr_options.tool import weather
from mrtr_options.tool.server import Params, build_server, location_of, text


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """Report the weather, and ask for what is missing."""
    desk = ctx.lifespan_context
    location = location_of(params)

    # The hazard above the question: once per round, unseen.
    await desk.audit(location)

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location))
        place = answer.place

    units = await ctx.elicit(weather.which_units(place))

    await desk.bill(place)
    return text(weather.report(place, units))


server = build_server("weather-m", positional_replay(call_weather))

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
