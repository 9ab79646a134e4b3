"""Any process serves any round: tools and prompts, strictly alternating over two server processes.

The two share the state keys and, for L, a database file; nothing else. (Option K's tasks are held to
the same in `test_tasks_processes`, the weather tool in `review/test_processes`.)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from mrtr_options.bench.client import client_of
from mrtr_options.bench.history import Request
from mrtr_options.conformance.fixtures import PREFIX, PROMPT
from mrtr_options.sdk.protection import KEYS_VARIABLE, new_key
from mrtr_options.tool.settings import DATABASE_VARIABLE
from tests.bounds import SECONDS
from tests.commands import begun

pytestmark = pytest.mark.slow

SAID: dict[str, dict[str, str | int | float | bool | list[str] | None]] = {
    "step1": {"name": "Ada"},
    "step2": {"color": "green"},
    "user_context": {"context": "ships"},
}


@contextmanager
def serving(style: str, folder: Path, keys: str) -> Generator[str]:
    """The URL of a server process, which ends with the block."""
    shared = {KEYS_VARIABLE: keys, DATABASE_VARIABLE: f"sqlite:///{folder / 'calls.sqlite'}"}
    command = f"python -m mrtr_options.conformance.styles {style.upper()}"
    with begun(command, folder, r"http://\S+(?=\s)", shared) as url:
        yield url


async def finish(kind: str, urls: list[str]) -> tuple[types.Result, list[str]]:
    """A whole call, each round at the other process; its result, and the questions."""
    asked: list[str] = []
    round_: dict[str, Any] = {}
    for url in cycle(urls):
        async with client_of(url, Request()) as client:
            session, more = client.session, True
            result: Any
            if kind == "tool":
                result = await session.call_tool(
                    PREFIX + "multi_round", {}, allow_input_required=more, **round_
                )
            else:
                result = await session.get_prompt(PROMPT, allow_input_required=more, **round_)
        if not isinstance(result, types.InputRequiredResult):
            return result, asked
        (key,) = result.input_requests or {}
        asked.append(key)
        answer = types.ElicitResult(action="accept", content=SAID[key])
        round_ = {"input_responses": {key: answer}, "request_state": result.request_state}
    raise AssertionError("there is always a next process")


@pytest.mark.anyio
@pytest.mark.parametrize("style", "efgjl")
async def test_a_tool_and_a_prompt_alternate_over_two_processes(style: str, tmp_path: Path) -> None:
    keys = new_key().decode()
    with ExitStack() as stack, anyio.fail_after(SECONDS):
        urls = [stack.enter_context(serving(style, tmp_path, keys)) for _ in range(2)]
        tool, asked = await finish("tool", urls)
        assert isinstance(tool, types.CallToolResult)
        assert isinstance(tool.content[0], types.TextContent)
        assert (tool.content[0].text, asked) == (
            'state-ok {"name":"Ada"} {"color":"green"}',
            ["step1", "step2"],
        )
        prompt, asked = await finish("prompt", urls)
        assert isinstance(prompt, types.GetPromptResult)
        assert isinstance(prompt.messages[0].content, types.TextContent)
        assert (prompt.messages[0].content.text, asked) == (
            'state-ok {"context":"ships"}',
            ["user_context"],
        )


@pytest.mark.anyio
async def test_processes_without_a_common_key_refuse_each_others_states(tmp_path: Path) -> None:
    with ExitStack() as stack, anyio.fail_after(SECONDS):
        urls = [stack.enter_context(serving("e", tmp_path, new_key().decode())) for _ in range(2)]
        with pytest.raises(BaseExceptionGroup) as refused:
            await finish("tool", urls)
    assert "Invalid or expired requestState" in str(refused.value.exceptions) + repr(
        refused.value.exceptions
    )
