"""Option J, keyed replay: a linear handler that runs again, and a record of what it has done.

What the author writes: `await ctx.elicit()`, and each effect under a key. `once` goes where an
effect stands above a question, `on_commit` where it belongs to success.

What the SDK does: replays the handler in every round, takes answers and finished effects from the
state, and hands every effect an idempotency key that stays the same.

When to reach for it: a stateless fleet, linear code, and destinations that honour a key: then each
effect happens exactly once after the first round, whatever is lost or sent again.

When not: the destination honours no key. A lost response runs its effects again, as in F; and a
line without a key runs in every round, as in B. A call that is made again has other keys: see E.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.tool import weather
from mrtr_options.tool.server import Params, build_server, location_of, text


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """Report the weather, and ask for what is missing."""
    desk = ctx.lifespan_context
    location = location_of(params)

    # Skipped once it is recorded.
    await ctx.once("audit", lambda key: desk.audit(location, key=key))

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location, unasked="error"))
        place = answer.place

    units = await ctx.elicit(weather.which_units(place, unasked="metric"))

    ctx.on_commit(lambda key: desk.bill(place, key=key), key="bill")
    return text(weather.report(place, units))


server = build_server("weather-j", keyed_replay(call_weather))

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
