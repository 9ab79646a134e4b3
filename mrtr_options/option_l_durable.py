"""Option L, durable: H's linear handler, and the call outlives every process it ran in.

What the author writes: H's handler, with each effect in a named `step`.

What the SDK does: runs the handler on a durable engine that records every step, question and answer
in a database; the state names the call. A round sent again is answered from the record. On one
machine (DBOS) a process that starts again finishes what it began; on a fleet (Temporal) any
instance takes any round, and another one finishes what a dead one began.

When to reach for it: calls that must not be lost, on a fleet that comes and goes.

When not: a database in the path of every round is too much.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.sdk.durable import CallParams, DurableContext, DurableStore
from mrtr_options.tool import weather
from mrtr_options.tool.server import build_server, location_of, text

store = DurableStore()


async def call_weather(ctx: DurableContext[weather.Desk], params: CallParams) -> CallToolResult:
    """Report the weather, and ask for what is missing."""
    desk = ctx.lifespan_context
    location = location_of(params)

    # Recorded, so not run again.
    await ctx.step("audit", lambda key: desk.audit(location, key=key))

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location, unasked="error"))
        place = answer.place

    units = await ctx.elicit(weather.which_units(place, unasked="metric"))

    await ctx.step("bill", lambda key: desk.bill(place, key=key))
    return text(weather.report(place, units))


server = build_server("weather-l", store.linear(call_weather), resources=[store.serving])

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
