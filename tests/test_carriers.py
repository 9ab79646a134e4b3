"""A prompt and a resource that ask: the rounds that the main does not show."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import pytest
from mcp_types import ElicitResult, InputResponses
from mcp_types.version import LATEST_MODERN_VERSION

from examples import carriers
from examples.rounds import Declared, Request, Response, accept, connect, play, seen, state_of
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio

SPRINGFIELD = carriers.packing("Springfield")
TOKYO = carriers.weather_in("Tokyo, Japan")
PLACE: InputResponses = {"place": accept(place="Springfield, Missouri")}
UNITS: InputResponses = {"units": accept(units="metric")}


class Instance:
    """A server that did not handle a request yet; its clients declare and speak the same."""

    def __init__(
        self, declares: tuple[Declared, ...] = ("elicitation",), mode: str = LATEST_MODERN_VERSION
    ) -> None:
        self.reads: carriers.Reads = []
        self._server = carriers.build_server(self.reads)
        self._client: dict[str, Any] = {"declares": declares, "mode": mode}

    async def play(
        self, request: Request, answers: InputResponses | None = None, asked: Response | None = None
    ) -> Response:
        with anyio.fail_after(SECONDS):
            return await play(self._server, request, answers, asked, **self._client)


async def test_prompts_and_templates_are_listed() -> None:
    async with connect(carriers.build_server([])) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == [carriers.PROMPT]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == [carriers.TEMPLATE]


async def test_a_prompt_with_nothing_to_ask_is_there_in_one_round() -> None:
    wanted = "prompt: What do I pack for Tokyo, Japan? Today's sky: clear."
    assert seen(await Instance().play(carriers.packing("Tokyo"))) == wanted


@pytest.mark.parametrize(
    ("request_", "key", "bad", "good", "brings", "reads"),
    [
        (SPRINGFIELD, "place", accept(place="Springfield, Nowhere"), PLACE, "prompt: What do I", []),
        (TOKYO, "units", accept(units="kelvin"), UNITS, "content: Tokyo", ["Tokyo, Japan"]),
    ],
    ids=["prompt", "resource"],
)
async def test_an_answer_that_does_not_fit_is_refused_and_may_be_corrected(
    request_: Request, key: str, bad: ElicitResult, good: InputResponses, brings: str, reads: list[str]
) -> None:
    client = Instance()
    asked = await client.play(request_)
    refused = seen(await client.play(request_, {key: bad}, asked))
    assert refused.startswith(f"error -32602: The answer to {key!r} does not fit")
    assert client.reads == []
    assert seen(await client.play(request_, good, asked)).startswith(brings)
    assert client.reads == reads


@pytest.mark.parametrize(("action", "word"), [("decline", "declined"), ("cancel", "cancelled")])
@pytest.mark.parametrize(
    ("request_", "key"), [(SPRINGFIELD, "place"), (TOKYO, "units")], ids=["prompt", "resource"]
)
async def test_no_means_no_prompt_and_no_content(
    request_: Request, key: str, action: Literal["decline", "cancel"], word: str
) -> None:
    client = Instance()
    asked = await client.play(request_)
    assert word in seen(await client.play(request_, {key: ElicitResult(action=action)}, asked))
    assert client.reads == []


@pytest.mark.parametrize(
    "client", [Instance(declares=()), Instance(mode="legacy")], ids=["modern", "legacy"]
)
async def test_a_client_that_cannot_be_asked_is_told_what_to_do_or_gets_what_is_assumed(
    client: Instance,
) -> None:
    refusal = seen(await client.play(SPRINGFIELD))
    assert refusal.startswith("error -32602: 'Springfield' is ambiguous. Call again with one of")
    assert "metric assumed" in seen(await client.play(TOKYO))
    assert client.reads == ["Tokyo, Japan"]


async def test_what_does_not_exist_is_refused() -> None:
    for request, why in (
        (carriers.packing("Atlantis"), "Unknown location"),
        (carriers.weather_in("Atlantis"), "Unknown resource"),
    ):
        assert seen(await Instance().play(request)).startswith(f"error -32602: {why}")


async def test_the_state_is_sealed() -> None:
    state = state_of(await Instance().play(TOKYO)) or ""
    assert state.startswith("v1.")
    assert "units" not in state
