"""One object for tools whose calls are done once: it puts the parts that exist in their order.

    calls = Calls(SqliteStore("calls.sqlite"), keys=[key], caller=clerk_of)

    @calls.tool(server, name_by="reference")
    async def refund(call: Call, order: str, reference: str, amount: int) -> str:
        if not await call.confirm(f"Refund {amount} on {order}?"):
            raise NotDone("Nothing was refunded.")
        done = await call.once("refund", psp.refund, reference, amount, settled=psp.find)
        return f"Refunded: {done.id}"

This is the default: keyed replay in the guard, with named calls. Old clients are asked, too. Each
round runs the function from its first line, with the recorded answers and effects.

Knows the parts: `protect` seals, `single_use` guards and names, `keyed_replay` asks and does each
effect once, `legacy_shim` asks old clients.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import (
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
)

import mcp_types as types
from pydantic import BaseModel, create_model

from mrtr_options.sdk.call_key import CallFunction
from mrtr_options.sdk.effects import kind_of
from mrtr_options.sdk.handler import (
    AnyServer,
    Params,
    Principal,
    T,
    check_server,
    refuse_generator,
)
from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.sdk.protection import KEYS_VARIABLE, ProtectedRounds, new_key
from mrtr_options.sdk.questions import Cancelled, Declined, Question
from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.sdk.server import Tool, arguments_of, protect, text
from mrtr_options.sdk.settings import Settings, settings_or_environment
from mrtr_options.sdk.single_use import single_use
from mrtr_options.sdk.single_use.reservations import Store
from mrtr_options.sdk.writing import digest

P = ParamSpec("P")
Ts = TypeVarTuple("Ts")
Told = str | BaseModel | types.CallToolResult
ToldT = TypeVar("ToldT", bound=Told)
"""What a tool returns: a text, or what its output schema says, or a whole result."""

REPEAT_NOTE = "This call was made before, at {since}. Nothing was done now; its result was:"
"""What the model is told in front of the result of an earlier call."""

_NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
_logger = logging.getLogger(__name__)


class Consent(BaseModel):
    """The form of `confirm`."""

    go_ahead: Literal["yes", "no"]


class Guarding(TypedDict, total=False):
    """What else the guard can be told of a tool's calls; see `single_use`."""

    same: Sequence[str]
    caller: Principal
    call_is_secret: bool
    call_seconds: float
    repeat_note: str | None
    wait_seconds: float
    round_seconds: float
    attempts: int


class Call:
    """A call, as its tool is given it: who calls, how to ask, how to do a thing once.

    Attributes:
        caller: The name of the caller; empty for a stranger, whom `call_is_secret` lets in.
        lifespan_context: What the server's lifespan yields.
        elicit: Asks the user, or the client; see `ReplayContext.elicit`.
        elicit_all: Asks several questions in one round; see `ReplayContext.elicit_all`.
        memo: Computes a value once in a call; see `ReplayContext.memo`.
        until: Waits for something that is done elsewhere; see `ReplayContext.until`.
        report_progress: Tells the client how far its request is.
    """

    def __init__(self, ctx: ReplayContext[Any]) -> None:
        self._ctx = ctx
        self.caller = ctx.caller or ""
        self.lifespan_context: Any = ctx.lifespan_context
        self.elicit = ctx.elicit
        self.elicit_all = ctx.elicit_all
        self.memo = ctx.memo
        self.until = ctx.until
        self.report_progress = ctx.report_progress

    async def confirm(self, message: str) -> bool:
        """Ask the user for a yes. A no, a declined and a dismissed question are none.

        The words are the question's key: other words are asked anew.

        Raises:
            CannotAsk: The client cannot be asked.
        """
        key = f"confirm {digest(message)[:8]}"
        unasked = f"This client cannot ask its user: {message}"
        try:
            answer = await self.elicit(Question(key, message, Consent, unasked=unasked))
        except (Declined, Cancelled):
            return False
        return answer.go_ahead == "yes"

    async def once(
        self,
        key: str,
        effect: Callable[[*Ts], Awaitable[T] | T],
        *given: *Ts,
        settled: Callable[..., Awaitable[object] | object] | None = None,
    ) -> T:
        """Do a thing once in this call, and return what it returned, in later rounds, too.

        The value comes back as the effect's annotation says; without one, as JSON.

        Args:
            key: The effect's name; the author's own, unique in the tool, stable across versions.
            effect: Does it, async or not. An `MCPError` that it raises, as of a server that it
                calls, comes as a RuntimeError: it is no answer of this tool.
            given: What the effect is given.
            settled: Asks the destination whether it was done. It is given the first of what the
                effect is given, as many as it needs. It returns what the effect returned; False if
                it was not done, None if that cannot be said.

        Raises:
            TypeError: The effect, or `settled`, does not take what is given.
            MCPError: -32603, it may have been done, and nothing says whether it was.
        """
        look = None if settled is None else partial(settled, *_as_many_as(settled, given))
        _check_takes(effect, given)
        refuse_generator(effect)

        def run(_: str) -> Any:
            return effect(*given)

        run.__annotations__["return"] = kind_of(effect)
        return await self._ctx.once(key, run, settled=look)


ToolFunction = Callable[Concatenate[Call, P], Awaitable[ToldT]]


class Calls:
    """The calls of a server's tools, each known by its name and done once.

    Args:
        store: Where they are recorded; shared by all instances.
        keys: The ring of state keys, the signing one first; shared by all instances. None for
            those of the environment.
        caller: Names who calls; None or "" for a stranger. Over stdio `ctx.request` is None, and
            the one caller is who started the process.
        settings: All that an instance is run with, in place of the environment. What is given
            above counts.
    """

    def __init__(
        self,
        store: Store,
        *,
        keys: Sequence[bytes] | None = None,
        caller: Principal | None = None,
        settings: Settings | None = None,
    ) -> None:
        settings = settings_or_environment(settings)
        keys = settings.keys if keys is None else keys
        for warning in _differences(store, keys):
            _logger.warning(warning)
        self.store = store
        keys = [_key_of_process()] if keys is None else keys
        self.settings = replace(settings, keys=[*keys], principal=caller or settings.principal)

    def tool(
        self,
        server: AnyServer,
        *,
        name_by: str | CallFunction,
        name: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        **guarding: Unpack[Guarding],
    ) -> Callable[[ToolFunction[P, ToldT]], ToolFunction[P, ToldT]]:
        """Make a decorator that serves an async function as a tool of a server of either tier.

        Its first parameter is the `Call`; the others are the tool's arguments.

        Args:
            server: States are bound to its name. It is protected with the settings of this object.
            name_by: What names a call; see `call` of `single_use`.
            name: The tool's name; by default the function's.
            description: For the model; by default the function's docstring.
            annotations: Hints for clients; by default that the tool may be called again.
            **guarding: What else the guard is told.

        Raises:
            TypeError: It is no such server or function.
            ValueError: Its calls cannot be named so; or the server is protected otherwise, as by
                other `Calls`, whose keys differ.
        """
        self._protect(server)
        options: Guarding = {"repeat_note": REPEAT_NOTE, **guarding}
        guard = single_use(self.store, call=name_by, **options)

        def add(function: ToolFunction[P, ToldT]) -> ToolFunction[P, ToldT]:
            arguments, output = _models_of(function)
            tool = Tool(
                name or function.__name__,
                description or inspect.getdoc(function) or "",
                arguments,
                keyed_replay(_handler_of(function, arguments)),
                [guard, legacy_shim],
                annotations=annotations or types.ToolAnnotations(idempotent_hint=True),
                output_schema=output,
            )
            tool.add_to(server)
            return function

        return add

    def _protect(self, server: AnyServer) -> None:
        """Protect the server, unless this object has done so."""
        check_server(server)
        others = [each for each in server.middleware if isinstance(each, ProtectedRounds)]
        if not others:
            protect(server, self.settings)
        elif any(each.settings != self.settings for each in others):
            raise ValueError(
                f"the server {server.name!r} is protected with other settings (keys, caller, ...):"
                " give all Calls of a server the same, and leave out build_server and protect"
            )


@cache
def _key_of_process() -> bytes:
    """Make a key that all `Calls` of this process share."""
    return new_key()


def _differences(store: Store, keys: Sequence[bytes] | None) -> list[str]:
    """Say in what two instances that are started like this one would differ."""
    path: Path | str | None = getattr(store, "path", None)
    said: list[str] = []
    if not keys:
        said.append(
            f"{KEYS_VARIABLE} is not set: the states of calls are refused after a restart, and by"
            " other instances"
        )
    if path == ":memory:":
        said.append("calls are kept in this process: a restart and other instances know none")
    elif path is not None:
        said.append(
            f"calls are kept in {Path(path).resolve()}: an instance with another file, or on"
            " another machine, knows none of them (PostgresStore is for several machines)"
        )
    return said


# --- from a function to a tool ------------------------------------------------------------------


def _models_of(function: Callable[..., Any]) -> tuple[type[BaseModel], type[BaseModel] | None]:
    """Return the model of a function's arguments, and that of what it returns, if it has one."""
    signature = inspect.signature(function, eval_str=True)
    _, *parameters = signature.parameters.values()
    told: Any = signature.return_annotation
    is_told = isinstance(told, type) and issubclass(told, Told)
    is_fit = all(
        each.annotation is not each.empty and each.kind in _NAMED and each.name[0] != "_"
        for each in parameters
    )
    if not (inspect.iscoroutinefunction(function) and is_told and is_fit):
        raise TypeError(
            f"calls.tool takes `async def {function.__name__}(call: Call, reference: str, ...) ->"
            " str`, with a type for each argument, whose name begins with a letter; it may return a"
            " model or a CallToolResult, too"
        )
    fields: dict[str, Any] = {
        each.name: (each.annotation, ... if each.default is each.empty else each.default)
        for each in parameters
    }
    is_model = not issubclass(told, str | types.CallToolResult)
    return create_model(function.__name__, **fields), cast("Any", told) if is_model else None


def _as_many_as(function: Callable[..., object], given: Sequence[object]) -> Sequence[object]:
    """Return the first of these values, as many as a function needs.

    What it can do without is its own: a time limit is no amount.

    Raises:
        TypeError: It needs more.
    """
    signature = _signature_of(function)
    if signature is None:
        return given
    parameters = signature.parameters.values()
    takes_all = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    positional = [each for each in parameters if each.kind in _POSITIONAL]
    needed = [each for each in positional if each.default is each.empty] or positional[:1]
    first = given if takes_all else given[: len(needed)]
    signature.bind(*first)
    return first


def _check_takes(function: Callable[..., object], given: Sequence[object]) -> None:
    """Raise a TypeError for a function that does not take all of these values."""
    signature = _signature_of(function)
    if signature is not None:
        signature.bind(*given)


def _signature_of(function: Callable[..., object]) -> inspect.Signature | None:
    """Return a function's signature; None for one in C that has none."""
    try:
        return inspect.signature(function)
    except ValueError:
        return None


def _handler_of(
    function: Callable[..., Awaitable[Told]], arguments: type[BaseModel]
) -> Callable[[ReplayContext[Any], Params], Awaitable[types.CallToolResult]]:
    """Return the handler of keyed replay that calls a function with its arguments."""

    async def handler(ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        wanted = arguments_of(params, arguments)
        told = await function(Call(ctx), **dict(wanted))
        if isinstance(told, types.CallToolResult):
            return told
        if isinstance(told, str):
            return text(told)
        plain = told.model_dump(mode="json", by_alias=True)
        return text(json.dumps(plain)).model_copy(update={"structured_content": plain})

    return handler
