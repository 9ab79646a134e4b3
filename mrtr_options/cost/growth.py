"""How a call grows with its questions: bytes of state, and how much of the author's code is executed.

Counted, not timed, so it is the same in every run. Knows the styles as `chains` makes them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import mcp_types as types
from mcp import Client

from mrtr_options.cost.calls import clients_of
from mrtr_options.cost.chains import STYLES, Style
from mrtr_options.cost.timing import Row
from mrtr_options.tool.server import TOOL

COUNTS = (1, 2, 3, 5, 10, 20)
"""Questions in a call, where the answer is short."""
ANSWER_CHARACTERS = (10, 100, 1000)
"""How long an answer is, where there are `QUESTIONS_OF_LONG_ANSWERS`."""
QUESTIONS_OF_LONG_ANSWERS = 3


async def growth(styles: Mapping[str, Style] = STYLES) -> list[Row]:
    """One call in each style for each number of questions, and for each length of answers."""
    short = [(questions, ANSWER_CHARACTERS[0]) for questions in COUNTS]
    long = [(QUESTIONS_OF_LONG_ANSWERS, characters) for characters in ANSWER_CHARACTERS[1:]]
    return [
        await grown(name, style, questions, characters)
        for questions, characters in short + long
        for name, style in styles.items()
    ]


async def grown(name: str, style: Style, questions: int, characters: int) -> Row:
    """One call of the generated tool.

    Args:
        name: The style's.
        style: Makes the tool.
        questions: How many it asks.
        characters: How long each answer is.

    Returns:
        The bytes of the state that each round handed out, as the client carries it, and of all of them
        out and back; how often a function of the author's was entered, how many of the author's lines
        were executed, and how often each effect took place.
    """
    effects = Counter[str]()

    async def effect(kind: str) -> None:
        effects[kind] += 1

    made = style(questions, effect)
    async with clients_of({name: made.server}) as clients:
        with _watched(made.authors) as watch:
            states = await _call(clients[name], "a" * characters)
    return Row(
        name,
        {
            "questions": questions,
            "answer_characters": characters,
            "states": states,
            "entries": watch.entries,
            "lines": watch.lines,
            "first_effects": effects["first"],
            "last_effects": effects["last"],
            "total_state_bytes": 2 * sum(states),
        },
    )


async def _call(client: Client, answer: str) -> list[int]:
    states: list[int] = []
    answers: types.InputResponses | None = None
    state: str | None = None
    while True:
        result = await client.session.call_tool(
            TOOL, {}, input_responses=answers, request_state=state, allow_input_required=True
        )
        if isinstance(result, types.CallToolResult):
            return states
        state = result.request_state
        states.append(len(state or ""))
        answers = {
            key: types.ElicitResult(action="accept", content={"answer": answer})
            for key in result.input_requests or {}
        }


class _Watch:
    """A trace function (see `sys.settrace`) that counts what happens in some functions."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self._codes = {function.__code__ for function in functions}
        self.entries = self.lines = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code not in self._codes:
            return None
        if event == "line":
            self.lines += 1
        elif event == "call" and frame.f_lineno == frame.f_code.co_firstlineno:
            self.entries += 1  # a coroutine that goes on stands at its `await`, not at its first line
        return self


@contextmanager
def _watched(functions: Sequence[Callable[..., Any]]) -> Generator[_Watch]:
    watch, before = _Watch(functions), sys.gettrace()
    sys.settrace(watch)
    try:
        yield watch
    finally:
        sys.settrace(before)
