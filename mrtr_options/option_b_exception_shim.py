"""Option B, exception shim: a cautionary tale. Do not ship this.

What the author writes: `await ctx.elicit()`, as when servers could still push.

What the SDK does: raises out of the handler at each question and replays it from the first line
when the answer arrives. The `await` looks like a suspension and is a jump to the top.

When to reach for it: never. H has the same author code, and there the `await` is true.

When not: always. Every effect above a question runs once per round on the modern era and once on
the legacy era, so tests against an old client pass.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.sdk.exception_shim import ReplayContext, exception_shim
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


server = build_server("weather-b", exception_shim(call_weather))

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
