"""Tests of the limits on a request, and on what a server keeps of it."""

import gc
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from pydantic import create_model

from mrtr_options.review.bench.client import MODES
from mrtr_options.sdk.questions import Inquiry, ask, link, request_for, roots, sampling
from mrtr_options.sdk.serving import MAX_BODY_BYTES
from mrtr_options.tool import weather
from mrtr_options.tool.server import build_server
from mrtr_options.tool.settings import configured
from tests.bounds import SECONDS
from tests.sending import accepted, answer, connected, instance, over_http, send, settings, text_of

pytestmark = pytest.mark.anyio

TOKYO = "Tokyo, Japan: 19 °C, clear."


@pytest.mark.parametrize("letter", ["E", "F", "G", "H", "I", "J"])
async def test_a_modern_state_is_refused_on_a_request_of_an_older_version(letter: str) -> None:
    server = instance(letter, settings())
    async with connected(server) as new, connected(server, "legacy") as old:
        asked = await send(new, "Tokyo")
        answers: types.InputResponses = {"units": accepted(units="metric")}
        for state, given in ((asked, None), (None, answers)):
            with pytest.raises(MCPError, match="Use version 2026-07-28") as refusal:
                await send(old, "Tokyo", state, given)
            assert refusal.value.code == types.INVALID_PARAMS
        assert text_of(await answer(new, "Tokyo", asked)) == TOKYO


@pytest.mark.parametrize(
    ("question", "needed"),
    [
        (link("q", "Please visit.", "https://example.org"), {"elicitation": {"url": {}}}),
        (
            sampling("q", types.CreateMessageRequestParams(messages=[], max_tokens=1)),
            {"sampling": {}},
        ),
        (roots("q"), {"roots": {}}),
    ],
    ids=["link", "sampling", "roots"],
)
async def test_no_question_goes_out_of_a_kind_that_the_client_does_not_declare(
    question: Inquiry[Any], needed: dict[str, Any]
) -> None:
    async def handler(ctx: Any, params: types.CallToolRequestParams) -> types.InputRequiredResult:
        return ask(question)

    with configured(settings()):
        server = build_server("weather-any-question", handler)
    async with Client(server, mode=MODES["modern"]) as client:
        with pytest.raises(MCPError, match="does not declare") as refusal:
            await send(client, "Tokyo")
    assert refusal.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert refusal.value.data == {"requiredCapabilities": needed}


class Spelling(str):
    """A text that can have weak references."""


def test_nothing_is_kept_of_the_names_that_clients_call_places_by() -> None:
    kept: list[weakref.ref[Spelling]] = []
    models: set[type] = set()
    for number in range(50):
        spelling = Spelling("springfield" + " " * number)
        kept.append(weakref.ref(spelling))
        models.add(weather.which_place(spelling).answer)
        weather.only_place(spelling)
        del spelling
    gc.collect()
    assert [ref() for ref in kept] == [None] * 50
    assert len(models) == 1


def test_of_models_made_for_one_question_each_a_bounded_number_is_kept() -> None:
    kept: list[weakref.ref[type]] = []
    for number in range(200):
        question = weather.Question("q", "?", create_model(f"Answer{number}", name=(str, ...)))
        request_for(question)
        kept.append(weakref.ref(question.answer))
        del question
    gc.collect()
    assert len([ref for ref in kept if ref() is not None]) <= 130


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
async def test_a_body_longer_than_any_round_is_refused_before_it_is_parsed(
    is_chunked: bool,
) -> None:
    async def chunks(size: int) -> AsyncGenerator[bytes]:
        for start in range(0, size, 50_000):
            yield b"x" * min(50_000, size - start)

    codes: list[int] = []
    with anyio.fail_after(SECONDS):
        async with over_http(instance("E", settings())) as url, httpx2.AsyncClient() as client:
            for size in (MAX_BODY_BYTES + 1, MAX_BODY_BYTES):
                content = chunks(size) if is_chunked else b"x" * size
                codes.append((await client.post(url, content=content)).status_code)
    assert codes == [413, 400]
