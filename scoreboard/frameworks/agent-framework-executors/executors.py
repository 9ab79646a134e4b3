"""The weather tool as a graph of the Microsoft Agent Framework: an executor for each question."""

import asyncio

import tool
from agent_framework import (
    Executor,
    FileCheckpointStorage,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    response_handler,
)


class LogLookup(Executor):
    @handler
    async def log_lookup(self, location: str, ctx: WorkflowContext[str]) -> None:
        tool.audit(location)
        await ctx.send_message(location)


class AskPlace(Executor):
    @handler
    async def ask(self, location: str, ctx: WorkflowContext[str]) -> None:
        await ctx.request_info(tool.which_place(location), str)

    @response_handler
    async def answered(self, question: dict, place: str, ctx: WorkflowContext[str]) -> None:
        await ctx.send_message(place)


class AskConsent(Executor):
    @handler
    async def ask(self, place: str, ctx: WorkflowContext[str]) -> None:
        await ctx.request_info(tool.may_bill(place) | {"place": place}, str)

    @response_handler
    async def answered(self, question: dict, said: str, ctx: WorkflowContext[str]) -> None:
        await ctx.send_message(question["place"])


class AskUnits(Executor):
    @handler
    async def ask(self, place: str, ctx: WorkflowContext[dict]) -> None:
        await ctx.request_info(tool.which_units(place) | {"place": place}, str)

    @response_handler
    async def answered(self, question: dict, units: str, ctx: WorkflowContext[dict]) -> None:
        await ctx.send_message({"place": question["place"], "units": units})


class Charge(Executor):
    @handler
    async def charge(self, order: dict, ctx: WorkflowContext[None, str]) -> None:
        tool.bill(order["place"])
        await ctx.yield_output(tool.report(order["place"], order["units"]))


def storage() -> FileCheckpointStorage:
    return FileCheckpointStorage(tool.STORE / "checkpoints")


def weather() -> Workflow:
    consent = [AskConsent("ask_consent")] if tool.CONSENT else []
    questions = [AskPlace("ask_place"), *consent, AskUnits("ask_units")]
    chain = [LogLookup("log_lookup"), *questions, Charge("charge")]
    builder = WorkflowBuilder(start_executor=chain[0], name="weather", checkpoint_storage=storage())
    return builder.add_chain(chain).build()


async def run(**how) -> dict:
    result = await weather().run(**how)
    if not (pending := result.get_request_info_events()):
        return tool.done(result.get_outputs()[0])
    latest = await storage().get_latest(workflow_name="weather")
    pause = {"checkpoint": latest.checkpoint_id, "request": pending[-1].request_id}
    return tool.asked(pending[-1].data, pause)


def start(call: str, location: str, user: str) -> dict:
    return asyncio.run(run(message=location))


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    answers = {pause["request"]: value}
    return asyncio.run(run(responses=answers, checkpoint_id=pause["checkpoint"]))


if __name__ == "__main__":
    tool.deliver(start, resume)
