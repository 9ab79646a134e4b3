"""Tests of operations: the rounds of a call share a name, and each leaves a line in the log."""

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mrtr_options.sdk.protection import new_key, read_without_key
from mrtr_options.sdk.questions import request_for
from mrtr_options.sdk.telemetry import CALL_ATTRIBUTE, ROUND_ATTRIBUTE, log_to_standard_error
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import all_options
from mrtr_options.tool.server import build_server, text
from mrtr_options.tool.settings import Settings, configured
from tests.bounds import SECONDS
from tests.sending import accepted, answer, connected, instance, send, settings, text_of

pytestmark = pytest.mark.anyio

SPRINGFIELD = "Springfield, Illinois: 22 °C, partly cloudy."
QUESTIONS: types.InputRequests = {"units": request_for(weather.which_units("Tokyo"))}


@pytest.fixture(scope="session")
def exporter() -> InMemorySpanExporter:
    """Set up the exporter of spans; OpenTelemetry takes only one provider per process."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Turn on the log of rounds."""
    caplog.set_level(logging.INFO, "mrtr_options.rounds")
    return caplog


@asynccontextmanager
async def two_instances(letter: str) -> AsyncGenerator[list[Client]]:
    """Connect clients to two instances that share their keys."""
    shared = replace(settings(), keys=[new_key()])
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(connected(instance(letter, shared))) for _ in range(2)
        ]


@pytest.mark.parametrize("letter", "EFGH")
async def test_the_rounds_of_a_call_share_its_name_on_two_instances(
    letter: str, exporter: InMemorySpanExporter
) -> None:
    exporter.clear()
    async with two_instances(letter) as (one, other):
        other = one if letter == "H" else other  # H keeps its frame in one instance
        for first in (one, other):
            asked = await answer(other, "Springfield", await send(first, "Springfield"))
            assert text_of(await answer(one, "Springfield", asked)) == SPRINGFIELD
    rounds: list[Any] = [
        span.attributes or {}
        for span in exporter.get_finished_spans()
        if (span.kind, span.name) == (trace.SpanKind.SERVER, "tools/call weather")
    ]
    found = [(each.get(CALL_ATTRIBUTE), each.get(ROUND_ATTRIBUTE)) for each in rounds]
    first = found[0][0]
    second = found[3][0]
    assert found == [(first, 1), (first, 2), (first, 3), (second, 1), (second, 2), (second, 3)]
    assert len({first, second, None}) == 3


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    "state", ["", "x", "call:forged.5:", f"call:{'a' * 22}.5:mine", "a\nb ü \ud800"]
)
async def test_the_handler_sees_the_state_it_wrote(sealed: bool, state: str) -> None:
    seen: list[str | None] = []

    async def handler(ctx: Any, params: types.CallToolRequestParams) -> Any:
        seen.append(params.request_state)
        if len(seen) == 3:
            return text("done")
        return types.InputRequiredResult(input_requests=QUESTIONS, request_state=state)

    with configured(settings()):
        server = build_server("weather-any-state", handler, sealed=sealed)
    async with connected(server) as client:
        asked = await send(client, "Tokyo")
        asked = await send(client, "Tokyo", asked)
        assert text_of(await send(client, "Tokyo", asked)) == "done"
    assert seen == [None, state, state]


def told(log: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the records of the log of rounds."""
    return [vars(record) for record in log.records if record.name == "mrtr_options.rounds"]


async def test_each_round_leaves_one_line_without_its_answers_its_arguments_and_its_state(
    log: pytest.LogCaptureFixture,
) -> None:
    async with two_instances("E") as (one, other):
        await one.list_tools()
        asked = await send(one, "Springfield")
        with pytest.raises(MCPError):
            await send(other, "Springfield", asked, {"place": accepted(place="nowhere at all")})
        with pytest.raises(MCPError):
            await send(other, "Tokyo", asked)  # a genuine state of another call
        asked = await answer(other, "Springfield", asked)
        await answer(one, "Springfield", asked)
        await send(one, "Atlantis")
        with pytest.raises(MCPError):
            await send(one, "Springfield", types.InputRequiredResult(request_state="forged"))
    lines = told(log)
    call = lines[0]["call"]
    assert [(line["call"] == call, line["round"], line["outcome"]) for line in lines] == [
        (True, 1, "input_required"),
        (True, 2, "-32602"),
        (True, 2, "-32602"),
        (True, 2, "input_required"),
        (True, 3, "complete"),
        (False, 1, "tool_error"),
        (False, None, "-32602"),
    ]
    assert {(line["option"], line["method"]) for line in lines} == {("weather-e", "tools/call")}
    assert all(0 < line["duration_ms"] < SECONDS * 1000 for line in lines)
    assert lines[-1]["call"] is None
    start = f"weather-e tools/call call {call} round 1: input_required in "
    assert lines[0]["message"].startswith(start)
    assert isinstance(asked, types.InputRequiredResult)
    state = asked.request_state or ""
    secrets = [state, (read_without_key(state) or b"").decode()]
    for secret in ("Springfield", "Illinois", "metric", "nowhere at all", "forged", *secrets):
        assert secret not in repr(lines)


async def test_a_crash_and_a_cancelled_round_leave_their_line(
    log: pytest.LogCaptureFixture,
) -> None:
    ledger = Ledger(RuntimeError("the printer is on fire"))
    async with connected(instance("E", Settings(ledger))) as client:
        asked = await send(client, "Tokyo")
        with pytest.raises(MCPError):
            await answer(client, "Tokyo", asked)
        asked = await answer(client, "Springfield", await send(client, "Springfield"))
        async with anyio.create_task_group() as group:
            group.start_soon(answer, client, "Springfield", asked)
            await ledger.held.wait()
            group.cancel_scope.cancel()
    outcomes = [line["outcome"] for line in told(log)]
    assert outcomes[1:] == ["crashed", "input_required", "input_required", "cancelled"]


class Ledger(weather.MemoryLedger):
    """A ledger that crashes at a bill about Tokyo, and holds every other bill."""

    def __init__(self, crash: Exception) -> None:
        super().__init__()
        self.crash = crash
        self.held = anyio.Event()

    async def record(self, effect: weather.Effect) -> None:
        if effect.kind == "bill":
            if "Tokyo" in effect.subject:
                raise self.crash
            self.held.set()
            await anyio.sleep_forever()
        await super().record(effect)


def test_the_log_on_standard_error_has_a_round_once_beside_the_log_of_an_mcpserver(
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rounds = logging.getLogger("mrtr_options.rounds")
    monkeypatch.setattr(rounds, "handlers", [])
    monkeypatch.setattr(rounds, "propagate", True)
    log_to_standard_error()
    rounds.info("round 1")
    assert capsys.readouterr().err.count("round 1") == 1
    assert log.messages == []


async def metric(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestFormParams)
    assert params.requested_schema.keys() <= {"type", "properties", "required", "$schema"}
    return accepted(units="metric")


@pytest.mark.parametrize("letter", sorted(all_options()))
async def test_an_exception_is_an_error_and_no_name_of_a_class_is_in_a_schema(letter: str) -> None:
    server = instance(letter, Settings(Ledger(RuntimeError("a detail of the destination"))))
    async with Client(server, mode="2026-07-28", elicitation_callback=metric) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.input_schema.keys().isdisjoint(("title", "description"))
        assert "title" not in tool.input_schema["properties"]["location"]
        with pytest.raises(MCPError) as raised:
            await client.call_tool("weather", {"location": "Tokyo"})
        assert raised.value.code == types.INTERNAL_ERROR
        assert "a detail" not in str(raised.value)
