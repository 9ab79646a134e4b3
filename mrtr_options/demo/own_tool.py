"""A tool that asks its user twice and does one thing: begin your own with it.

python own_tool.py [PORT] serves it, pytest own_tool.py tries it. What to change: the arguments, the
questions, the effect and its key. docs/USING.md says what each part is for.
"""

from __future__ import annotations

import argparse
from typing import Any, Literal

import anyio
from mcp_types import ElicitResult
from pydantic import BaseModel, Field

from mrtr_options import sdk
from mrtr_options.sdk.testing import Losing, client, served


class Arguments(BaseModel):
    """What the tool is called with."""

    guest: str = Field(min_length=1, max_length=50)


class Time(BaseModel):
    """The form of the first question."""

    time: Literal["18:00", "20:30"]


class Deposit(BaseModel):
    """The form of the second question."""

    method: Literal["card", "voucher"]


class State(sdk.Markers):
    """What a later round needs. The client carries it, sealed."""

    time: str | None = None


class World:
    """What the tool does something to. Yours is a database, or somebody else's service."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []

    async def do(self, key: str, what: str) -> None:
        """Do the effect; a second one under the same key is the same one.

        In a database the key is a unique constraint; in a service, its idempotency key.
        """
        if key not in dict(self.done):
            self.done.append((key, what))


async def call_tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
    """Ask, then act. It runs from its first line in every round: effects come after questions."""
    world: World = ctx.lifespan_context
    guest, state = sdk.arguments_of(params, Arguments).guest, sdk.load_state(params, State)

    when = sdk.Question("time", "When?", Time)
    if state.time is None:
        answer = sdk.answer_to(when, ctx, params)
        if answer is None:
            return sdk.ask(when, state)
        state.time = answer.time

    how = sdk.Question("deposit", f"How will you leave the deposit for {state.time}?", Deposit)
    deposit = sdk.answer_to(how, ctx, params)
    if deposit is None:
        return sdk.ask(how, state)

    # The key is what the call is about, so a tool that is called again does nothing twice.
    await world.do(f"{guest} at {state.time}", deposit.method)
    return sdk.text(f"A table for {guest} at {state.time}.")


def build(world: World, rounds: str) -> Any:
    """Build the server. `rounds` is the file in which the guard remembers what has run."""
    guard = sdk.single_use(sdk.SqliteStore(rounds))
    tool = sdk.Tool("own_tool", "Books a table for tonight.", Arguments, call_tool, [guard])
    return sdk.build_server("own-server", tool, lifespan_context=world)


def test_neither_a_lost_response_nor_a_second_call_does_it_twice() -> None:
    world = World()

    async def user(context: Any, params: Any) -> ElicitResult:
        ((name, field),) = params.requested_schema["properties"].items()
        return ElicitResult(action="accept", content={name: field["enum"][0]})

    async def calls() -> None:
        losing = Losing([3])  # the last of three responses
        async with (
            served(build(world, ":memory:")) as url,
            sdk.ResumingClient(lambda: client(url, user, losing)) as caller,
        ):
            for _ in range(2):  # the client sends a round again; its host calls the tool again
                await caller.call_tool("own_tool", {"guest": "Ada"})

    anyio.run(calls)
    assert world.done == [("Ada at 18:00", "card")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS)
    parser.add_argument("port", type=int, nargs="?", default=8000)
    port = parser.parse_args().port
    sdk.log_to_standard_error()
    sdk.serve(build(World(), "rounds.sqlite"), port=port)
