"""Option K, task: L's durable handler, and the client gets a handle instead of waiting.

What the author writes: L's handler. It may also report its progress (`ctx.status`).

What the SDK does: to a client that takes tasks, `tools/call` returns a task at once. Questions,
progress and the result are found in `tasks/get`, answers go in through `tasks/update`, and
`tasks/cancel` stops the work, on whichever instance it runs. To any other client it does what L
does.

When to reach for it: work that takes longer than a request should, or than a connection lasts.
After about 50 s of it L asks its user whether to go on waiting.

When not: short work. Every look is a request, the client sees nothing until it looks, and it has to
know the extension. As in L, a step whose process dies runs again: give its key to the destination.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.sdk.tasks import CallParams, TaskContext, TaskStore
from mrtr_options.tool import weather
from mrtr_options.tool.server import build_server, location_of, outcome_of, text

store = TaskStore(outcome_of=outcome_of)


async def call_weather(ctx: TaskContext[weather.Desk], params: CallParams) -> CallToolResult:
    """Report the weather, and ask for what is missing."""
    desk = ctx.lifespan_context
    location = location_of(params)

    # Recorded, so not run again.
    await ctx.step("audit", lambda key: desk.audit(location, key=key))

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location, unasked="error"))
        place = answer.place

    await ctx.status(f"Found {place}.")
    units = await ctx.elicit(weather.which_units(place, unasked="metric"))

    await ctx.step("bill", lambda key: desk.bill(place, key=key))
    return text(weather.report(place, units))


server = build_server(
    "weather-k",
    store.task(call_weather),
    resources=[store.serving],
    extensions=[store],
)

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
