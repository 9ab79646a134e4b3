"""The weather tool as a functional workflow of the Microsoft Agent Framework."""

import asyncio
import json
import sys

import tool
from agent_framework import FileCheckpointStorage, RunContext, step, workflow

VARIANT = sys.argv[1]
"""`steps`: effects and questions are steps; `ids`: effects are steps, and the caller sends all
answers; `auto`: the same, with the ids that the framework gives.
"""


@step
async def log_lookup(location: str) -> None:
    tool.audit(location)


@step
async def charge(place: str) -> None:
    tool.bill(place)


@step
async def ask_in_step(question: dict, ctx: RunContext) -> str:
    return await ctx.request_info(question, str, request_id=question["key"])


async def ask(question: dict, ctx: RunContext) -> str:
    if VARIANT == "steps":
        return await ask_in_step(question)
    told = {} if VARIANT == "auto" else {"request_id": question["key"]}
    return await ctx.request_info(question, str, **told)


@workflow
async def weather(location: str, ctx: RunContext) -> str:
    await log_lookup(location)
    names = tool.places(location)
    place = names[0] if len(names) == 1 else await ask(tool.which_place(location), ctx)
    if tool.CONSENT and not await ask(tool.may_bill(place), ctx):
        return "No lookup was made."
    units = await ask(tool.which_units(place), ctx)
    await charge(place)
    return tool.report(place, units)


async def run(answers: dict, **how) -> dict:
    storage = FileCheckpointStorage(tool.STORE / "checkpoints")
    result = await weather.build(checkpoint_storage=storage).run(**how)
    if not (pending := result.get_request_info_events()):
        return tool.done(result.get_outputs()[0])
    latest = await storage.get_latest(workflow_name="weather")
    pause = {"checkpoint": latest.checkpoint_id, "request": pending[-1].request_id}
    kept(latest.checkpoint_id).write_text(json.dumps(answers))
    return tool.asked(pending[-1].data, pause)


def kept(checkpoint: str):
    """The answers so far, which the application keeps beside the checkpoint."""
    return tool.STORE / f"answers-{checkpoint}.json"


def start(call: str, location: str, user: str) -> dict:
    return asyncio.run(run({}, message=location))


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    request = pause["request"] if VARIANT == "auto" else name
    file = kept(pause["checkpoint"])
    so_far = json.loads(file.read_text()) if VARIANT != "steps" and file.exists() else {}
    answers = so_far | {request: value}
    return asyncio.run(run(answers, responses=answers, checkpoint_id=pause["checkpoint"]))


if __name__ == "__main__":
    tool.deliver(start, resume)
