"""The client: what connects to a server and exchanges one request for one response, in either era.

Everything that calls the tool goes through `exchange`: schedules, the options' demos, the random search
and the tests. Knows the SDK's client and what goes over the wire (`history`); no option and no schedule.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp.client.session import ClientRequestContext, ElicitationFnT
from pydantic import RootModel, TypeAdapter

from mrtr_options.bench.history import LOST, Era, Reply, Request
from mrtr_options.sdk.tasks.wire import IDENTIFIER
from mrtr_options.tool.server import TOOL, Context

MODES: dict[Era, str] = {"modern": "2026-07-28", "legacy": "legacy"}

PRINCIPAL = "mrtr-options/principal"
"""The `_meta` entry that says, under review, who is calling."""

Answerer = Callable[[types.ElicitRequestFormParams], Awaitable[types.ElicitResult]]
"""A user: fills in a form, or declines or cancels it."""


async def agreeable(form: types.ElicitRequestFormParams) -> types.ElicitResult:
    """A user who answers every form: Springfield is in Illinois, units are metric."""
    wanted = ("Springfield, Illinois", "metric")
    content: dict[str, Any] = {}
    for name, schema in form.requested_schema["properties"].items():
        content[name] = next(
            (choice for choice in schema["enum"] if choice in wanted), schema["enum"][0]
        )
    return types.ElicitResult(action="accept", content=content)


def principal_of(ctx: Context) -> str | None:
    """Who is calling, under review: what the request's `_meta` says."""
    meta: dict[str, Any] = (ctx.params or {}).get("_meta") or {}
    return meta.get(PRINCIPAL)


async def _unused(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    """Declares elicitation; a modern server never pushes a question."""
    return types.ErrorData(code=types.INVALID_REQUEST, message="not asked this way")


def client_of(server: Any, like: Request, user: ElicitationFnT | None = None) -> Client:
    """A client that can send requests like this one.

    Args:
        server: A server, a URL or a transport.
        like: Says the era and what the client declares.
        user: Answers what a legacy server pushes.
    """
    return Client(
        server,
        mode=MODES[like.era],
        elicitation_callback=(user or _unused) if like.asks else None,
        extensions=[advertise(IDENTIFIER)] if like.takes_tasks else [],
    )


async def exchange(client: Client, request: Request, gone: anyio.Event | None = None) -> Reply:
    """Send one request and read what comes back: a result, questions, a task or an error.

    Args:
        client: Connected, of the request's era.
        request: What is sent.
        gone: When it is set the client leaves, and the response is lost.
    """
    if gone is None:
        return await _exchange(client, request)
    reply = Reply(nothing=LOST)
    async with anyio.create_task_group() as group:

        async def call() -> None:
            nonlocal reply
            reply = await _exchange(client, request)
            group.cancel_scope.cancel()

        group.start_soon(call)
        await gone.wait()
        group.cancel_scope.cancel()
    return reply


async def _exchange(client: Client, request: Request) -> Reply:
    try:
        if request.takes_tasks or request.task:
            return await _exchange_as_task(client, request)
        result = await client.session.call_tool(
            TOOL,
            {"location": request.location},
            input_responses=request.answers,
            request_state=request.state,
            meta=cast("types.RequestParamsMeta", {PRINCIPAL: request.principal}),
            allow_input_required=True,
        )
    except MCPError as error:
        return Reply(code=error.code, message=error.message)
    if isinstance(result, types.CallToolResult):
        texts = (block.text for block in result.content if isinstance(block, types.TextContent))
        return Reply(text="\n".join(texts), is_error=result.is_error)
    requests, state = result.input_requests or {}, result.request_state
    return replace(_asking(requests), state=state, later=bool(state) and not requests)


class _Call(types.Request[dict[str, Any], str]):
    name_param = "name"


class _OfTask(types.Request[dict[str, Any], str]):
    name_param = "taskId"


async def _exchange_as_task(client: Client, request: Request) -> Reply:
    """The same for a client that takes tasks, and for every request that is about one (SEP-2663)."""
    params: dict[str, Any] = {"_meta": {PRINCIPAL: request.principal}}
    if request.method == "tools/call":
        params |= {"name": TOOL, "arguments": {"location": request.location}}
    else:
        params["taskId"] = request.task
    if request.method == "tasks/update":
        answers = request.answers or {}
        params["inputResponses"] = {
            key: answer.model_dump(by_alias=True, mode="json", exclude_none=True)
            for key, answer in answers.items()
        }
    sent = (_Call if request.method == "tools/call" else _OfTask)(method=request.method, params=params)
    found = (await client.session.send_request(sent, RootModel[dict[str, Any]])).root
    described = Reply(
        task=found.get("taskId"), status=found.get("status"), status_message=found.get("statusMessage")
    )
    if "error" in found:  # a failed task's; not if it has failed before its handle is out
        return replace(described, code=found["error"]["code"], message=found["error"]["message"])
    result: dict[str, Any] = found.get("result") or found
    if "content" in result:
        text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        return replace(described, text=text, is_error=result.get("isError", False))
    asking = _asking(_REQUESTS.validate_python(found.get("inputRequests") or {}))
    return replace(described, questions=asking.questions, schemas=asking.schemas)


_REQUESTS: TypeAdapter[types.InputRequests] = TypeAdapter(types.InputRequests)


def _asking(requests: types.InputRequests) -> Reply:
    forms = {
        key: asked.params
        for key, asked in requests.items()
        if isinstance(asked, types.ElicitRequest)
        and isinstance(asked.params, types.ElicitRequestFormParams)
    }
    return Reply(
        questions={key: form.message for key, form in forms.items()},
        schemas={key: form.requested_schema for key, form in forms.items()},
    )
