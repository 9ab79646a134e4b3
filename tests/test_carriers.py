"""A prompt and a resource that ask: the main as a process, and the rounds through the client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import anyio
import pytest
from mcp_types import ElicitResult, InputRequiredResult, InputResponses
from mcp_types.version import LATEST_MODERN_VERSION

from examples import carriers
from examples.carriers import REFUSED
from examples.rounds import Declared, Request, Response, accept, connect, play, seen, state_of, tampered
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio


@dataclass
class Instance:
    """A server that did not handle a request yet, and what a client of it declares."""

    reads: carriers.Reads
    asks: bool = True
    mode: str = LATEST_MODERN_VERSION

    def __post_init__(self) -> None:
        self.server = carriers.build_server(self.reads)

    async def play(
        self, request: Request, answers: InputResponses | None, asked: Response | None
    ) -> Response:
        declares: tuple[Declared, ...] = ("elicitation",) if self.asks else ()
        with anyio.fail_after(SECONDS):
            return await play(self.server, request, answers, asked, declares=declares, mode=self.mode)


async def get(
    instance: Instance,
    location: str,
    answers: InputResponses | None = None,
    asked: Response | None = None,
) -> Response:
    return await instance.play(carriers.packing(location), answers, asked)


async def read(
    instance: Instance, place: str, answers: InputResponses | None = None, asked: Response | None = None
) -> Response:
    return await instance.play(carriers.weather_in(place), answers, asked)


PLACE: InputResponses = {"place": accept(place="Springfield, Missouri")}
UNITS: InputResponses = {"units": accept(units="metric")}


async def test_prompts_and_templates_are_listed() -> None:
    async with connect(carriers.build_server([])) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == [carriers.PROMPT]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == [carriers.TEMPLATE]


async def test_a_prompt_with_nothing_to_ask_is_there_in_one_round() -> None:
    client = Instance([])
    wanted = "prompt: What do I pack for Tokyo, Japan? Today's sky: clear."
    assert seen(await get(client, "Tokyo")) == wanted


async def test_an_answer_that_does_not_fit_is_refused_and_may_be_corrected() -> None:
    reads: carriers.Reads = []
    client = Instance(reads)
    asked = await get(client, "Springfield")
    bad = await get(client, "Springfield", {"place": accept(place="Springfield, Nowhere")}, asked)
    assert seen(bad).startswith("error -32602: The answer to 'place' does not fit")
    good = await get(client, "Springfield", PLACE, asked)
    assert seen(good).startswith("prompt: What do I pack for Springfield, Missouri?")

    asked = await read(client, "Tokyo, Japan")
    bad = await read(client, "Tokyo, Japan", {"units": accept(units="kelvin")}, asked)
    assert seen(bad).startswith("error -32602: The answer to 'units' does not fit")
    assert reads == []
    assert seen(await read(client, "Tokyo, Japan", UNITS, asked)).startswith("content: Tokyo")
    assert reads == ["Tokyo, Japan"]


@pytest.mark.parametrize(("action", "word"), [("decline", "declined"), ("cancel", "cancelled")])
async def test_no_means_no_prompt_and_no_content(
    action: Literal["decline", "cancel"], word: str
) -> None:
    reads: carriers.Reads = []
    no = ElicitResult(action=action)
    client = Instance(reads)
    asked = await get(client, "Springfield")
    assert word in seen(await get(client, "Springfield", {"place": no}, asked))
    asked = await read(client, "Tokyo, Japan")
    assert word in seen(await read(client, "Tokyo, Japan", {"units": no}, asked))
    assert reads == []


@pytest.mark.parametrize(("asks", "mode"), [(False, LATEST_MODERN_VERSION), (True, "legacy")])
async def test_a_client_that_cannot_be_asked_is_told_what_to_do_or_gets_what_is_assumed(
    asks: bool, mode: str
) -> None:
    reads: carriers.Reads = []
    client = Instance(reads, asks=asks, mode=mode)
    refusal = seen(await get(client, "Springfield"))
    assert refusal.startswith("error -32602: 'Springfield' is ambiguous. Call again with one of")
    assert "metric assumed" in seen(await read(client, "Tokyo, Japan"))
    assert reads == ["Tokyo, Japan"]


async def test_what_does_not_exist_is_refused() -> None:
    client = Instance([])
    assert seen(await get(client, "Atlantis")).startswith("error -32602: Unknown location")
    assert seen(await read(client, "Atlantis")).startswith("error -32602: Unknown resource")


async def test_a_state_that_was_tampered_with_is_refused() -> None:
    reads: carriers.Reads = []
    client = Instance(reads)
    for use, where, answers in ((get, "Springfield", PLACE), (read, "Tokyo, Japan", UNITS)):
        asked = await use(client, where)
        assert isinstance(asked, InputRequiredResult)
        changed = asked.model_copy(update={"request_state": tampered(asked.request_state or "")})
        assert seen(await use(client, where, answers, changed)) == REFUSED
    assert reads == []


async def test_the_state_is_sealed() -> None:
    client = Instance([])
    state = state_of(await read(client, "Tokyo, Japan"))
    assert state is not None
    assert "units" not in state
    assert state.startswith("v1.")
