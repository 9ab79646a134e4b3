"""The weather tool as one step of a LlamaIndex workflow that waits for an event at each
question.
"""

import asyncio
import json
import sys

import tool
from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent

VARIANT = sys.argv[1]
"""The marks of a wait: nothing, a `waiter_id`, a `waiter_id` and `requirements`, or a `waiter_id`
and an event type of its own (`types`).
"""


class PlaceChosen(HumanResponseEvent):
    pass


class Agreed(HumanResponseEvent):
    pass


class UnitsChosen(HumanResponseEvent):
    pass


OWN_TYPES = {"place": PlaceChosen, "consent": Agreed, "units": UnitsChosen}


def answer_type(key: str) -> type[HumanResponseEvent]:
    return OWN_TYPES[key] if VARIANT == "types" else HumanResponseEvent


async def ask(ctx: Context, question: dict) -> str:
    told = {} if VARIANT == "nothing" else {"waiter_id": question["key"]}
    if VARIANT == "requirements":
        told["requirements"] = {"question": question["key"]}
    asked = InputRequiredEvent(question=question)
    answer = await ctx.wait_for_event(answer_type(question["key"]), waiter_event=asked, **told)
    return answer.response


class Weather(Workflow):
    @step
    async def weather(self, ctx: Context, ev: StartEvent) -> StopEvent:
        tool.audit(ev.location)
        names = tool.places(ev.location)
        place = names[0] if len(names) == 1 else await ask(ctx, tool.which_place(ev.location))
        if tool.CONSENT and not await ask(ctx, tool.may_bill(place)):
            return StopEvent(result="No lookup was made.")
        units = await ask(ctx, tool.which_units(place))
        tool.bill(place)
        return StopEvent(result=tool.report(place, units))


async def run_on(call: str, handler) -> dict:
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            saved(call).write_text(json.dumps(handler.ctx.to_dict()))
            await handler.cancel_run()
            return tool.asked(event.question, {"call": call})
    return tool.done(await handler)


def saved(call: str):
    return tool.STORE / f"{call}.json"


def start(call: str, location: str, user: str) -> dict:
    async def run() -> dict:
        return await run_on(call, Weather().run(location=location))

    return asyncio.run(run())


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    async def run() -> dict:
        workflow = Weather()
        ctx = Context.from_dict(workflow, json.loads(saved(pause["call"]).read_text()))
        handler = workflow.run(ctx=ctx)
        handler.ctx.send_event(answer_type(name)(response=value, question=name))
        return await run_on(pause["call"], handler)

    return asyncio.run(run())


if __name__ == "__main__":
    tool.deliver(start, resume)
