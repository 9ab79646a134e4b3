"""Handlers: their types, the refusal of other objects, and the request that a handler answers.

A handler answers `tools/call` on the lowlevel server: `async def (ctx, params)`. Everything here is
either one, goes around one, or makes one. One that awaits its answers gets a context of its own and
a `CallParams`. Effects may be async or plain functions.

What the parts of a server tell each other of a request is in one object, the `Request`, under one
context variable. `protection.ProtectedRounds` makes it.

Knows the SDK's types, `keys` and `reasons`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeVar, cast, get_origin

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import MCPServer, Server, ServerRequestContext
from pydantic import AliasChoices, AliasPath, BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mrtr_options.sdk.reasons import Reason, data_of

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
Result = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[Context, Params], Awaitable[Result]]
Principal = Callable[[Context], str | None]
Clock = Callable[[], float]
"""Tells the time, in seconds since 1970."""
JsonObject = dict[str, Any]
"""A JSON object, as `json.loads` returns it."""
AnyServer = MCPServer[Any] | Server[Any]
"""A server of either tier."""

ArgumentsT = TypeVar("ArgumentsT", bound=BaseModel)
DeskT = TypeVar("DeskT")
HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])
ParamsT = TypeVar("ParamsT", bound=types.InputResponseRequestParams)
ResultT = TypeVar("ResultT", bound=types.Result)
T = TypeVar("T")

HandlerOf = Callable[[Context, ParamsT], Awaitable[ResultT | types.InputRequiredResult]]
"""A handler of a tool, a prompt or a resource."""
Action = Callable[[], Awaitable[T] | T]
"""A function of the author's, async or not."""
Effect = Callable[[str], Awaitable[T] | T]
"""A function that does an effect, async or not.

It gets the idempotency key, and hands it on to the effect's destination.
"""

_NEEDS = "needs_while_serving"
_NEEDS_SEAL = "needs_seal"
NAMES_CALLS = "calls_named_by"
"""The mark of a handler whose calls its author names; see `call_key`."""
TIMES = "times"
"""The mark of a handler whose calls are known for some time; see `Tool.check_calls`."""
TELLS_EFFECTS = "tells_effects"
"""The mark of a handler that tells of all its effects; see `effects`."""


@dataclass(frozen=True, slots=True)
class CallParams:
    """The part of a request's parameters that all rounds of a call share.

    A handler that awaits its answers gets it in their place.

    Attributes:
        name: The tool, or the prompt.
        arguments: Its arguments.
    """

    name: str
    arguments: dict[str, Any] | None

    @staticmethod
    def of(params: types.CallToolRequestParams | types.GetPromptRequestParams) -> CallParams:
        """Return the part of these parameters that all rounds share."""
        arguments = params.arguments
        return CallParams(params.name, None if arguments is None else {**arguments})


class CallAbandoned(BaseException):
    """The end of a handler whose call is given up.

    A question stays unanswered for too long, or the server that keeps the call shuts down.

    Not an `Exception`, so that the author's `except Exception` does not take it for a failure;
    their `finally` blocks run.
    """


def refuse_generator(effect: Callable[..., object]) -> None:
    """Refuse an effect that is a generator function, since calling it does nothing.

    A function that returns a generator has been run by then, and may have done something.

    Raises:
        TypeError: It is one.
    """
    if inspect.isgeneratorfunction(effect) or inspect.isasyncgenfunction(effect):
        name = getattr(effect, "__qualname__", repr(effect))
        raise TypeError(f"{name} yields, so it was not run: return a value")


async def await_result(result: Awaitable[T] | T) -> T:
    """Return the result of an author's function; await it if the function is async.

    An async function that returns another one's coroutine has done nothing until that is awaited.

    Raises:
        TypeError: It is a generator.
    """
    done: Any = await result if inspect.isawaitable(result) else result
    while inspect.iscoroutine(done):
        done = await done
    if inspect.isgenerator(done) or inspect.isasyncgen(done):
        raise TypeError(f"{done.__qualname__} yields: return a value")
    return cast("T", done)


def failure_of(raised: BaseException) -> Exception:
    """Return what an author's code raised, as an error that ends its call and not the process.

    So it is with `SystemExit`, and with the cancellation of a task that the code awaits.

    Raises:
        BaseException: This one; the code is stopped from outside.
    """
    if isinstance(raised, Exception):
        return raised
    if _is_from_outside(raised):
        raise raised
    failure = RuntimeError(f"{type(raised).__name__}: {raised}")
    failure.__cause__ = raised
    return failure


def _is_from_outside(raised: BaseException) -> bool:
    """Return whether the code is cancelled, or its coroutine is dropped."""
    if isinstance(raised, BaseExceptionGroup):
        return any(map(_is_from_outside, cast("BaseExceptionGroup[Any]", raised).exceptions))
    if isinstance(raised, GeneratorExit):
        return True
    cancelled = anyio.get_cancelled_exc_class()
    if cancelled is not asyncio.CancelledError:  # trio hands a Ctrl-C to the code that runs
        return isinstance(raised, cancelled | KeyboardInterrupt)
    task = asyncio.current_task()
    is_own = type(raised) is cancelled and task is not None and not task.cancelling()
    return isinstance(raised, cancelled) and not is_own


def arguments_of(params: Params | CallParams, model: type[ArgumentsT]) -> ArgumentsT:
    """Read the arguments of a call, as its model has them.

    Raises:
        MCPError: -32602, naming what does not fit.
    """
    try:
        return model.model_validate(params.arguments or {})
    except ValidationError as error:
        why = f"The arguments do not fit: {first_error(error)}."
        raise MCPError(types.INVALID_PARAMS, why) from None


def arguments_that_fit(params: Params, model: type[BaseModel]) -> BaseModel:
    """Read each argument of a call by itself; one that does not fit is as it was sent."""
    given = params.arguments or {}
    read = model.model_construct()
    for name, field in model.model_fields.items():
        sent = _sent(name, field, given)
        if sent is PydanticUndefined:
            continue
        try:
            model.__pydantic_validator__.validate_assignment(read, name, sent)
        except Exception:  # a validator of the author's may need the other arguments
            vars(read)[name] = sent
    return read


def _sent(name: str, field: FieldInfo, given: JsonObject) -> Any:
    """Return what was sent for a field, under the first of its names; undefined if nothing was."""
    alias = field.validation_alias or name
    names = alias.choices if isinstance(alias, AliasChoices) else [alias]
    for each in [*names, name]:
        path = AliasPath(each) if isinstance(each, str) else each
        sent: Any = path.search_dict_for_path(given)  # pyright: ignore[reportUnknownMemberType]
        if sent is not PydanticUndefined:
            return sent
    return PydanticUndefined


def first_error(error: ValidationError) -> str:
    """Return where and why something does not fit, in words that do not show it back."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))


class Crashed(MCPError):
    """An exception of the author's code that is not an outcome of the tool.

    Its text stays in the log.
    """

    def __init__(self) -> None:
        super().__init__(types.INTERNAL_ERROR, "Internal server error")


class NotBegun(MCPError):
    """A request is refused before any code of the tool's has run for it.

    The same request may succeed later, or on another instance.
    """


def refusal(
    reason: Reason,
    known: str | None = None,
    then: str | None = None,
    *,
    code: int | None = None,
    kind: type[MCPError] = MCPError,
    **more: object,
) -> MCPError:
    """Make the error of a refused request: what is known of its call, and what to do.

    Args:
        reason: Why, for programs.
        known: What is known, for people and models; by default what its meaning says.
        then: What to do; by default what its meaning says.
        code: The code of JSON-RPC; by default the reason's.
        kind: The class of the error.
        more: What else programs may know.
    """
    meaning = reason.meaning
    message = f"{known or meaning.known} {then or meaning.then}"
    return kind(code or meaning.code, message, data_of(reason, **more))


@contextmanager
def telling_of(begun: Callable[[], Collection[str]]) -> Generator[None]:
    """Have a refusal say that an effect of its call may have happened, where one has begun.

    Args:
        begun: Returns the effects that have begun by then.
    """
    try:
        yield
    except MCPError as error:
        tell_effects(error, begun())
        raise


def tell_effects(error: MCPError, begun: Collection[str]) -> None:
    """Have a refusal say that an effect of its call may have happened, if one has begun."""
    if begun and reason_of(error) is not None:
        error.error.data["may_have_happened"] = True


def reason_of(error: MCPError) -> str | None:
    """Return the reason of a refusal, if the error has one."""
    match error.data:
        case {"reason": str(reason)}:
            return reason
        case _:
            return None


def check_result(result: ResultT) -> ResultT:
    """Check that a handler returned a result, and return it.

    Raises:
        TypeError: It is no result.
        ValueError: It holds an infinite number or NaN, which would be sent as null.
    """
    if not isinstance(result, types.Result):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the handler returned {type(result).__name__}, and no result")
    said = [result.meta, vars(result).get("structured_content")]
    if any(said):
        try:
            json.dumps(said, allow_nan=False, default=str)
        except ValueError as error:
            raise ValueError(f"what the handler returned has no JSON: {error}") from None
    return result


def check_server(server: object) -> None:
    """Refuse a server of another package.

    Raises:
        TypeError: It is neither an `MCPServer` nor a lowlevel `Server`.
    """
    if not isinstance(server, MCPServer | Server):
        name = f"{type(server).__module__.partition('.')[0]}.{type(server).__name__}"
        raise TypeError(
            f"{name} is not an MCPServer or Server of the package mcp; write MCPServer(...) from"
            " mcp.server, and add the tool to that"
        )


class NotAHandler(TypeError):
    """The refusal of an object that is no handler. The text is one line that says what to write."""


_ROUND = (ServerRequestContext, types.RequestParams)


def check_handler(handler: object, user: str, takes: tuple[type, type] = _ROUND) -> None:
    """Check that this is a handler.

    It is not if it is a tool of `MCPServer`, one that awaits answers, or a plain function.

    Args:
        handler: What was given.
        user: What it was given to, for the text.
        takes: The classes of its context and its parameters.

    Raises:
        NotAHandler: It does not take these, or is not async.
    """
    if (why := why_not(handler, takes, is_async=True)) is None:
        return
    name = getattr(handler, "__qualname__", type(handler).__name__)
    if takes is not _ROUND:
        context, call = (each.__name__ for each in takes)
        raise NotAHandler(
            f"{user} takes `async def {name}(ctx: {context}, params: {call})`, and {name} {why}"
        )
    raise NotAHandler(
        f"{user} takes a handler, `async def {name}(ctx, params)`, and {name} {why}. One that"
        " awaits its answers goes through keyed_replay(...) or store.linear(...) first; on an"
        " MCPServer, write Tool(...).add_to(server)"
    )


def why_not(given: object, takes: tuple[type, ...], *, is_async: bool = False) -> str | None:
    """Say why something is no function that takes these, or not async; None if it is."""
    if not callable(given):
        return "is not a function"
    try:
        signature = inspect.signature(given, eval_str=True)
    except NameError:  # an annotation that only a type checker can see
        signature = inspect.signature(given)
    try:
        signature.bind(*takes)
    except TypeError:
        return f"takes {signature.replace(return_annotation=inspect.Signature.empty)}"
    for parameter, kind in zip(signature.parameters.values(), takes, strict=False):
        told: Any = get_origin(parameter.annotation) or parameter.annotation
        is_told = isinstance(told, type) and told not in (inspect.Parameter.empty, UnionType, Any)
        if is_told and not (issubclass(told, kind) or issubclass(kind, told)):
            return f"takes {parameter}"
    if is_async and not any(map(inspect.iscoroutinefunction, (given, given.__call__))):
        return "yields" if inspect.isasyncgenfunction(given) else "is not async"
    return None


def mark_times(handler: HandlerT, **seconds: float) -> HandlerT:
    """Mark a handler with the times for which its calls are known, by their settings' names."""
    vars(handler)[TIMES] = {**vars(handler).get(TIMES, {}), **seconds}
    return handler


def mark_need(handler: HandlerT, resource: object) -> HandlerT:
    """Mark a handler as one that works only while a resource is open, and return it."""
    vars(handler)[_NEEDS] = resource
    return handler


def needed_by(handler: object) -> object:
    """Return the resource that must be open while this handler serves; None if there is none."""
    return getattr(handler, _NEEDS, None)


def seals(handler: HandlerT) -> HandlerT:
    """Mark a handler whose state holds values of the server's, which no client may read."""
    vars(handler)[_NEEDS_SEAL] = True
    return handler


def needs_seal(handler: Callable[..., Any]) -> bool:
    """Return whether a handler's state holds values of the server's."""
    return getattr(handler, _NEEDS_SEAL, False)
