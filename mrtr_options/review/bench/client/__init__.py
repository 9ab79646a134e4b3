"""The client: it connects to a server and fetches the response to one request, in either era.

Everything that calls the tool goes through `fetch`: schedules, the options' demos, the random
search and the tests. Knows the SDK's client and what goes over the wire (`messages`); no option and
no schedule.
"""

from __future__ import annotations

import re
import ssl
import zlib
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cache, partial
from itertools import count
from math import inf
from typing import Any, cast

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp.client.session import ClientRequestContext, ClientSession, ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError

from mrtr_options.demo.call import MODES
from mrtr_options.review.bench.messages import (
    HUNG,
    LOST,
    Era,
    JsonObject,
    Reply,
    Request,
    as_json,
    checked_reply,
    declared_by,
    fields_of,
)
from mrtr_options.sdk.call_key import CALL_KEY
from mrtr_options.sdk.handler import first_error
from mrtr_options.tool.server import TOOL, Context

TASKS = "io.modelcontextprotocol/tasks"
"""The name of the Tasks extension (SEP-2663)."""

PRINCIPAL = "mrtr-options/principal"
"""The `_meta` entry that names the caller, under review."""

LEFT = "the client leaves"
"""The message of a request that its client does not wait for."""

IDLE_CONNECTIONS = 8
"""The most idle connections that are kept open between requests."""

MAX_PAGES = 100
"""The most pages of a listing that are read."""


def principal_of(ctx: Context) -> str | None:
    """Return the caller that the request's `_meta` names, under review."""
    meta: JsonObject = (ctx.params or {}).get("_meta") or {}
    return meta.get(PRINCIPAL)


async def refuse_question(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    """Refuse a question that is pushed where nobody answers it."""
    return types.ErrorData(code=types.INVALID_REQUEST, message="not asked this way")


_CAPABILITIES = "_build_capabilities"
"""The SDK's method that declares forms and URLs along with any callback. We replace it."""


_DISPATCHER = "_dispatcher"
_NEXT_ID = "_allocate_id"
"""The SDK's object that numbers requests, and its method. Half of the clients send texts as ids."""


class _Client(Client):
    like: Request
    notified: list[str]
    progress: list[types.ProgressNotificationParams]

    async def _build_session(self, exit_stack: AsyncExitStack) -> ClientSession:
        session = await super()._build_session(exit_stack)
        alike = replace(self.like, state=None, key=None, task="")  # without what chance decides
        if zlib.crc32(repr(alike).encode()) % 2:
            ids = map("request-{}".format, count(1))
            setattr(getattr(session, _DISPATCHER), _NEXT_ID, partial(next, ids))
        build = getattr(session, _CAPABILITIES)

        def declared(version: str) -> types.ClientCapabilities:
            return declared_by(self.like, build(version))

        setattr(session, _CAPABILITIES, declared)
        if self.like.version is not None:
            session.send_request = partial(_shaking_hands, session.send_request, self.like.version)
        return session


async def _shaking_hands(send: Any, version: str, request: Any, *more: Any, **named: Any) -> Any:
    """Send a request; an initialization with `version`, since the SDK's client knows the newest."""
    if isinstance(request, types.InitializeRequest):
        params = request.params.model_copy(update={"protocol_version": version})
        request = request.model_copy(update={"params": params})
    return await send(request, *more, **named)


def client_of(server: Any, like: Request, user: ElicitationFnT | None = None) -> Client:
    """Return a client that can send requests like this one.

    Args:
        server: A server, a URL or a transport.
        like: Says the era, the version, and what the client declares.
        user: Answers what a legacy server pushes.
    """
    notified: list[str] = []
    progress: list[types.ProgressNotificationParams] = []

    async def note(message: Any) -> None:
        if isinstance(message, types.ProgressNotification):
            progress.append(message.params)
        notified.extend(_strings_sent(message))

    async def note_log(params: types.LoggingMessageNotificationParams) -> None:
        await note(params)

    client = _Client(
        server,
        mode=MODES[like.era],
        elicitation_callback=user or refuse_question,
        logging_callback=note_log,
        message_handler=note,
        extensions=[advertise(TASKS)] if like.takes_tasks else [],
    )
    client.like = like
    client.notified = notified
    client.progress = progress
    return client


def strings_in(value: Any) -> Iterator[str]:
    """Yield every string of a JSON value, the names of its fields among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in cast("dict[str, Any]", value).items():
            yield str(name)
            yield from strings_in(part)
    elif isinstance(value, list):
        for part in cast("list[Any]", value):
            yield from strings_in(part)


def _strings_sent(message: Any) -> Iterator[str]:
    """Yield the strings of a message that the SDK has read."""
    if isinstance(message, BaseModel):
        sent = message.model_dump(mode="json", by_alias=True, exclude_none=True)
        yield from strings_in(sent)


def _strings_of_handshake(client: Client, session: ClientSession) -> Iterator[str]:
    """Yield the strings of the server's description of itself, from the start of the session.

    Args:
        client: It may have left in the meantime, and has no session then.
        session: The session that it had when it sent the request.
    """
    yield from _strings_sent(session.initialize_result)
    yield from _strings_sent(session.discover_result)
    if isinstance(client, _Client):
        yield from client.notified


def connections(most: int | None = 100) -> httpx2.AsyncClient:
    """Make connections to a deployment, without time limits; None for any number of them."""
    # Each request looks at every idle connection, so few of them are kept.
    limits = httpx2.Limits(max_connections=most, max_keepalive_connections=IDLE_CONNECTIONS)
    return httpx2.AsyncClient(timeout=None, trust_env=False, verify=_certificates(), limits=limits)


@cache
def _certificates() -> ssl.SSLContext:
    """Return the certificates that a client trusts. Reading them takes long."""
    return httpx2.create_ssl_context(trust_env=False)


async def fetch_at(
    url: str,
    http: httpx2.AsyncClient,
    request: Request,
    user: ElicitationFnT | None = None,
    gone: anyio.Event | None = None,
    seconds: float = inf,
) -> Reply:
    """Send one request over HTTP, with a client for it alone.

    A connection that breaks ends its client.

    Args:
        url: The endpoint.
        http: The connections of all clients, since making them takes longer than a request.
        request: The request; see `fetch`.
        user: Answers what a legacy server pushes.
        gone: When it is set the client leaves, and the response is lost.
        seconds: The longest time that it may take before it is called hung.
    """
    reply = Reply(nothing=HUNG)
    transport = streamable_http_client(url, http_client=http)
    try:
        with anyio.move_on_after(seconds):
            async with client_of(transport, request, user) as client:
                reply = await fetch(client, request, gone)
    except* httpx2.TransportError:
        reply = Reply(nothing=LOST)
    except* (MCPError, RuntimeError, ValidationError) as why:  # it does not connect
        reply = refusal(why)
    return Reply(nothing=LOST) if _is_of_the_client(reply) else reply


def _is_of_the_client(reply: Reply) -> bool:
    """Return whether the SDK's client made this error, because it lost the connection.

    Servers may use the same code, so the text decides.
    """
    says = reply.message or ""
    return reply.code == types.CONNECTION_CLOSED and says.startswith(
        ("Connection closed", "SSE stream ")
    )


def refusal(group: BaseExceptionGroup[MCPError | RuntimeError | ValidationError]) -> Reply:
    """Return the reply that says why a client and a server cannot open a session."""
    why = group.exceptions[0]
    if isinstance(why, BaseExceptionGroup):
        return refusal(why)
    if isinstance(why, MCPError):
        return Reply(code=why.code, message=why.message, data=why.data)
    return Reply(malformed=str(why).partition("\n")[0])


async def fetch(client: Client, request: Request, gone: anyio.Event | None = None) -> Reply:
    """Send one request and read what comes back: a result, questions, a task or an error.

    Args:
        client: Connected, of the request's era.
        request: The request that is sent.
        gone: When it is set the client leaves, and the response is lost.
    """
    if gone is None:
        return await _fetch(client, request)
    reply = Reply(nothing=LOST, message=LEFT)
    async with anyio.create_task_group() as group:

        async def call() -> None:
            nonlocal reply
            reply = await _fetch(client, request)
            group.cancel_scope.cancel()

        group.start_soon(call)
        await gone.wait()
        group.cancel_scope.cancel()
    return reply


_Message = types.Request[JsonObject, str]


class _Call(_Message):
    name_param = "name"


class _OfTask(_Message):
    name_param = "taskId"


class _List(_Message):
    pass


_Result = RootModel[JsonObject]


async def _fetch(client: Client, request: Request) -> Reply:
    session = client.session
    sent = _message(request)
    try:
        if request.method == "tools/list":
            return await _listing(client, session, request.era, sent)
        found = await _send(client, sent)
        whole = {name: part for name, part in found.items() if name != "requestState"}
        texts = (*strings_in(whole), *_strings_of_handshake(client, session))
        return replace(_read(found), texts=texts, astray=_progress_astray(client, sent))
    except MCPError as error:
        texts = (*strings_in(error.data), *_strings_of_handshake(client, session))
        return Reply(code=error.code, message=error.message, data=error.data, texts=texts)
    except ValidationError as error:
        return Reply(malformed=first_error(error))
    except (AttributeError, LookupError, TypeError) as error:
        return Reply(malformed=f"{type(error).__name__}: {error}")


def _progress_astray(client: Client, sent: _Message) -> str:
    """Return what is wrong with the progress that came with a response; "" if nothing is."""
    token = sent.params["_meta"].get("progressToken")
    last = -inf
    for each in client.progress if isinstance(client, _Client) else ():
        if each.progress_token != token:
            return f"the token {each.progress_token!r}"
        if each.progress <= last:
            return f"{each.progress:g} after {last:g}"
        last = each.progress
    return ""


def _message(request: Request) -> _Message:
    """Return a request as the SDK's client sends it.

    Its parameters are dictionaries: arguments, answers and results may not fit the SDK's models.
    """
    meta: JsonObject = {} if request.principal is None else {PRINCIPAL: request.principal}
    params: JsonObject = {"_meta": meta}
    kind: type[_Message]
    match request.method:
        case "tools/call":
            kind = _Call
            params["name"] = request.tool
            if request.arguments is not ...:
                params["arguments"] = request.sent_arguments
        case "tools/list":
            kind = _List
        case _:
            kind = _OfTask
            params["taskId"] = request.task
    if request.answers is not None or request.method == "tasks/update":
        answers = request.answers or {}
        params["inputResponses"] = {key: as_json(answer) for key, answer in answers.items()}
    habit = zlib.crc32(repr(params).encode())  # of all that chance does not decide
    if request.key is not None:
        meta[CALL_KEY] = request.key
    if request.state is not None:
        params["requestState"] = request.state
    if request.method == "tools/call" and request.era == "modern":
        _add_habits(params, habit)
    return kind(method=request.method, params=params)


def _add_habits(params: JsonObject, habit: int) -> None:
    """Add what some clients send with a request, and others do not.

    Each request has another progress token, a number or a text, if it has any. A request that is
    sent again has the same. One without answers leaves them out, or has an empty object.
    """
    token = zlib.crc32(repr(params).encode())
    if habit % 3:
        params["_meta"]["progressToken"] = token if habit % 3 == 1 else f"progress-{token}"
    if habit % 5 == 0:
        params["_meta"][types.LOG_LEVEL_META_KEY] = "info"
    if habit % 2:
        params.setdefault("inputResponses", {})


async def _listing(client: Client, session: ClientSession, era: Era, first: _Message) -> Reply:
    """Read all pages of the list of tools, and every text of what else the server offers.

    Each other tool, resource and prompt is used once, and each of their arguments completed.
    """
    params = first.params
    found = await _send(client, first)
    tools: list[JsonObject] = found["tools"]
    for _ in range(MAX_PAGES):
        cursor = found.get("nextCursor")
        if cursor is None:
            break
        found = await _send(client, _List(method=first.method, params=params | {"cursor": cursor}))
        tools += found["tools"]
    texts = [*strings_in(found), *strings_in(tools), *_strings_of_handshake(client, session)]
    lists = {"tools/list": {"tools": tools}}
    for listing, (kind, door, key) in _DOORS.items():
        listed = lists.get(listing) or await _ask(client, listing, params)
        texts += strings_in(listed)
        for each in listed.get(kind, ()):
            if each[key] == TOOL:
                continue
            arguments = _arguments(each)
            named = key.removesuffix("Template")
            use = {named: _FIELD.sub("Springfield", each[key]), "arguments": arguments}
            texts += strings_in(await _ask(client, door, params | use))
            for name in (*arguments, *_FIELD.findall(each[key])) if kind in _COMPLETED else ():
                begun = {"ref": {"type": _COMPLETED[kind], named: each[key]}}
                begun["argument"] = {"name": name, "value": ""}
                texts += strings_in(await _ask(client, "completion/complete", params | begun))
    if era == "modern":
        texts += strings_in(await _ask(client, "server/discover", params))
    return Reply(tools={tool["name"]: tool for tool in tools}, texts=tuple(texts))


_DOORS = {
    "tools/list": ("tools", "tools/call", "name"),
    "resources/list": ("resources", "resources/read", "uri"),
    "resources/templates/list": ("resourceTemplates", "resources/read", "uriTemplate"),
    "prompts/list": ("prompts", "prompts/get", "name"),
}
"""What a server may list, and how a client uses it: the list's name, the method, and the key."""

_COMPLETED = {"resourceTemplates": "ref/resource", "prompts": "ref/prompt"}
"""The lists of what has arguments that a server may complete, and the type of a reference to it."""

_FIELD = re.compile(r"{[+#./;?&]?([^{}]+)}")
"""A field of a resource template's URI, as in `weather://{city}`."""


def _arguments(listed: JsonObject) -> JsonObject:
    """Return arguments for a listed tool or prompt: a place for each text that it asks for."""
    schema: JsonObject = listed.get("inputSchema") or {}
    needs: list[dict[str, str]] = listed.get("arguments") or []
    names = [*fields_of(schema), *(each["name"] for each in needs)]
    return dict.fromkeys(names, "Springfield")


async def _ask(client: Client, method: str, params: JsonObject) -> JsonObject:
    """Return a result; nothing if the server refuses the request."""
    try:
        return await _send(client, _List(method=method, params=params))
    except (MCPError, ValidationError):
        return {}


async def _send(client: Client, request: _Message) -> JsonObject:
    return (await client.session.send_request(request, _Result)).root


def _read(found: JsonObject) -> Reply:
    described: dict[str, Any] = {
        "task": found.get("taskId"),
        "status": found.get("status"),
        "status_message": found.get("statusMessage"),
    }
    if "error" in found:  # a failed task's; not if it failed before its id was handed out
        error = found["error"]
        return checked_reply(
            **described, code=error["code"], message=error["message"], data=error.get("data")
        )
    result: JsonObject = found.get("result") or found
    # `resultType` says what a response is. Some servers send "content" with questions, too.
    if "content" in result and result.get("resultType") != "input_required":
        blocks: list[JsonObject] = result["content"] or []
        return checked_reply(
            **described,
            text="\n".join(block["text"] for block in blocks if block["type"] == "text"),
            is_error=result.get("isError", False),
            blocks=tuple(block["type"] for block in blocks),
            structured=result.get("structuredContent"),
            unknown_type=_unknown_type(found),
        )
    requests = _REQUESTS.validate_python(found.get("inputRequests") or {})
    state = found.get("requestState")
    return checked_reply(
        **described,
        **_asking(requests),
        state=state,
        later=bool(state) and not requests,
        unknown_type=_unknown_type(found),
    )


RESULT_TYPES = ("complete", "input_required", "task")
"""The types of result that the protocol and its Tasks extension have."""


def _unknown_type(found: JsonObject) -> str:
    """Return the type of a result, if the protocol does not have it."""
    kind = found.get("resultType", "complete")
    return "" if kind in RESULT_TYPES else str(kind)


_REQUESTS: TypeAdapter[types.InputRequests] = TypeAdapter(types.InputRequests)


def _asking(requests: types.InputRequests) -> dict[str, Any]:
    forms = {
        key: asked.params
        for key, asked in requests.items()
        if isinstance(asked, types.ElicitRequest)
        and isinstance(asked.params, types.ElicitRequestFormParams)
    }
    return {
        "questions": {key: form.message for key, form in forms.items()},
        "schemas": {key: form.requested_schema for key, form in forms.items()},
        "others": {key: asked.method for key, asked in requests.items() if key not in forms},
    }
