"""Option H, continuation store: a linear handler whose `await` is a suspension.

What the author writes: `await ctx.elicit()`, as when servers could still push.

What the SDK does: keeps the handler's frame in memory between rounds; the state names the frame. No
line runs twice, and a round sent again gets the response it got before.

When to reach for it: one instance, or a fleet with sticky routing on the state; tools that are
moved over from the old era without being rewritten.

When not: instances come and go. A frame dies with its process, and the call with it. A call that is
made again runs its effects again: see E.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.sdk.suspended import CallParams, ContinuationStore, LinearContext
from mrtr_options.tool import weather
from mrtr_options.tool.server import build_server, location_of, text

store = ContinuationStore()


async def call_weather(ctx: LinearContext[weather.Desk], params: CallParams) -> CallToolResult:
    """Report the weather, and ask for what is missing."""
    desk = ctx.lifespan_context
    location = location_of(params)

    # No hazard: the first line runs once.
    await desk.audit(location)

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location, unasked="error"))
        place = answer.place

    units = await ctx.elicit(weather.which_units(place, unasked="metric"))

    await desk.bill(place)
    return text(weather.report(place, units))


server = build_server("weather-h", store.linear(call_weather), resources=[store])

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
