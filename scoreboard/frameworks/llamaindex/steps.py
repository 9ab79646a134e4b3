"""The weather tool as a LlamaIndex workflow with a step and two events for each question."""

import asyncio
import json

import tool
from workflows import Context, Workflow, step
from workflows.events import HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent


class AskPlace(InputRequiredEvent):
    question: dict


class Place(HumanResponseEvent):
    response: str


class AskConsent(InputRequiredEvent):
    question: dict


class Consent(HumanResponseEvent):
    response: str


class AskUnits(InputRequiredEvent):
    question: dict


class Units(HumanResponseEvent):
    response: str


class Weather(Workflow):
    @step
    async def ask_place(self, ctx: Context, ev: StartEvent) -> AskPlace:
        tool.audit(ev.location)
        return AskPlace(question=tool.which_place(ev.location))

    @step
    async def ask_next(self, ctx: Context, ev: Place) -> AskConsent | AskUnits:
        await ctx.store.set("place", ev.response)
        if tool.CONSENT:
            return AskConsent(question=tool.may_bill(ev.response))
        return AskUnits(question=tool.which_units(ev.response))

    @step
    async def ask_units(self, ctx: Context, ev: Consent) -> AskUnits:
        return AskUnits(question=tool.which_units(await ctx.store.get("place")))

    @step
    async def charge(self, ctx: Context, ev: Units) -> StopEvent:
        place = await ctx.store.get("place")
        tool.bill(place)
        return StopEvent(result=tool.report(place, ev.response))


ANSWERS = {"place": Place, "consent": Consent, "units": Units}


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
        handler.ctx.send_event(ANSWERS[name](response=value))
        return await run_on(pause["call"], handler)

    return asyncio.run(run())


if __name__ == "__main__":
    tool.deliver(start, resume)
