"""The effects of a call, as its stand-in tells of them, and how its handler ends.

A stand-in with a record of effects (`replay`, `once`, `tool_builder`, `durable`) runs each effect
through `CallEffects.run`. A wrapper, such as the guard, opens a `CallEffects` for each round and
reads there what has happened: a call that has done something does not give its name away, and one
that has done nothing may begin again. A handler that does its effects by itself tells nothing, so
nothing is known of them.

Three endings are told to the user and mean something to the name of the call:

- a result: the call is done;
- `NotDone`: nothing was done, so the name is free;
- `Unknown`: nobody knows. The next call under the name tries again, and asks `settled` first.

Knows `handler`, `questions` and `reasons`.
"""

from __future__ import annotations

import copy
import inspect
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args, get_origin

import mcp_types as types
from mcp import MCPError
from pydantic import TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from mrtr_options.sdk.handler import (
    Action,
    T,
    await_result,
    failure_of,
    refusal,
    refuse_generator,
)
from mrtr_options.sdk.questions import Cancelled, CannotAsk, Declined
from mrtr_options.sdk.reasons import Reason

_logger = logging.getLogger(__name__)

Settled = Action[object]
"""Asks the destination whether an effect has happened: after it raised, and in the guard or on an
engine after its process died. It returns False if not, None if the destination cannot say, and else
what the effect returned.
"""

MAX_VALUE_BYTES = 64 * 1024
"""The longest value of an effect that is recorded with it."""


AGAIN_SECONDS = 5.0
"""The time after which a round in doubt may be sent again, where it may."""


class NotDone(Exception):
    """The end of a call that has done nothing. The text is told, and the name is free again.

    An effect that raises it did not happen. On an effect that raised another error it is the
    author's word; it takes back none that is done.
    """


class Unknown(Exception):
    """The end of a call of which nobody knows whether it was done. The text is for the caller.

    The next call under the name tries again, and asks `settled` first. On an engine (K, L) it asks
    its user again, too; and it is not tried if its steps returned more than 1 MiB.
    """


ENDINGS = Declined, Cancelled, CannotAsk, NotDone, Unknown
"""The exceptions that end a call with a text, and not with a result of its own."""

_CAREFUL_FIRST = MCPError, Unknown, NotDone, CannotAsk, Cancelled, Declined


def meant_by(error: Exception) -> Exception:
    """Return the outcome that a task group raises in a group of exceptions.

    Of several outcomes it is the most careful one. A group in which something failed is that
    failure.
    """
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    said = [meant_by(each) for each in group.exceptions]
    if not all(isinstance(each, _CAREFUL_FIRST) for each in said):
        return group
    return next(each for kind in _CAREFUL_FIRST for each in said if isinstance(each, kind))


def says_not_done(error: Exception) -> bool:
    """Return whether an exception says that the effect that raised it did not happen.

    A refused question says nothing of what the effect did before it asked.
    """
    return isinstance(meant_by(error), NotDone)


async def at_destination(action: Action[T]) -> T:
    """Return the result of an effect, of `settled`, or of another look at a destination.

    Raises:
        RuntimeError: It raised an `MCPError`, as an MCP server does that does not answer: that is
            no answer of this tool.
    """
    try:
        return await await_result(action())
    except Exception as error:
        if not isinstance(meant_by(error), MCPError):
            raise
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


@dataclass
class Standing:
    """How an effect stands in the round that runs it.

    Attributes:
        word: "begun" while it runs, and for ever if its process dies; "failed" if it raised.
        value: What it returned, as JSON has it.
        has_value: Whether the value is recorded.
        can_be_settled: Whether its destination can be asked.
    """

    word: Literal["begun", "done", "failed"] = "begun"
    value: Any = None
    has_value: bool = False
    can_be_settled: bool = False


_STANDINGS = TypeAdapter(dict[str, Standing])


async def _save_nowhere(effects: CallEffects) -> None:
    """Save nothing: no wrapper keeps a record."""


@dataclass
class CallEffects:
    """The effects of a call in one of its rounds.

    Attributes:
        before: The effects of earlier rounds.
        now: The effects that this round has begun, also when it was run before.
        is_told: Whether the stand-in tells of its effects.
        call: A number of the call's own, of which its idempotency keys are made.
        is_named: Whether the call has a name, under which it is known when it is made again.
        is_in_doubt: Whether the handler failed after an effect, in a process that recorded it.
        is_handed_on: Whether the next call of its name goes on with it, as on an engine.
        may_repeat: Whether an effect may be done again, since its destination honours keys.
        save: Saves them before an effect begins.
        ending: The exception that ended the handler without an effect, or without its user's
            consent.
        fresh: The effects that this run of the handler has begun. Its author may try them again.
        values: The values that this round has computed, for when it is run again.
    """

    before: list[str] = field(default_factory=list[str])
    now: dict[str, Standing] = field(default_factory=dict[str, Standing])
    is_told: bool = False
    call: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    is_named: bool = False
    is_in_doubt: bool = False
    is_handed_on: bool = False
    may_repeat: bool = False
    save: Callable[[CallEffects], Awaitable[None]] = _save_nowhere
    ending: Exception | None = None
    fresh: set[str] = field(default_factory=set[str])
    values: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def names(self) -> list[str]:
        """The effects that have happened, or may have."""
        return list(dict.fromkeys([*self.before, *self.now]))

    @property
    def done(self) -> list[str]:
        """The effects that have happened for certain."""
        return [*self.before, *(key for key, each in self.now.items() if each.word == "done")]

    @property
    def unknown(self) -> dict[str, Standing]:
        """The effects that have begun, and of which nobody knows whether they happened."""
        return {key: each for key, each in self.now.items() if each.word != "done"}

    @property
    def left_open(self) -> list[str]:
        """The unknown effects that the author of this run has no word on.

        An earlier run began them, or their destination is to be asked first.
        """
        return [
            key
            for key, each in self.unknown.items()
            if key not in self.fresh or each.can_be_settled
        ]

    @property
    def may_run_again(self) -> bool:
        """The answer to whether the round can run again without doing an effect twice."""
        return self.may_repeat or all(
            each.can_be_settled or (each.word == "done" and each.has_value)
            for each in self.now.values()
        )

    def keeps_name(self) -> bool:
        """Return whether the call keeps its name although its handler ended so.

        `NotDone` is the author's word on an effect that raised; nothing takes back one that is
        done.
        """
        return bool(self.done if isinstance(self.ending, NotDone) else self.names)

    def write(self) -> str | None:
        """Return them as text; None if there are none."""
        if not (self.before or self.now):
            return None
        now = {
            key: each if each.has_value else replace(each, value=None)
            for key, each in self.now.items()
        }
        said = {"call": self.call, "before": self.before, "now": now, "values": self.values}
        return to_json(said).decode()

    def read(self, text: str | None) -> None:
        """Take what an earlier run of this round wrote."""
        if text is not None:
            said = json.loads(text)
            self.call = said["call"]
            self.before = said["before"]
            self.now = _STANDINGS.validate_python(said["now"])
            self.values = said.get("values", {})

    def add(self, names: Iterable[str]) -> None:
        """Add effects of earlier rounds."""
        self.before += [name for name in names if name not in self.names]

    async def run(self, key: str, effect: Action[object], settled: Settled | None = None) -> Any:
        """Run an effect, unless it has happened, and return its value as JSON has it.

        Raises:
            MCPError: -32603, it may have happened, and nothing says whether it did.
            TypeError: It is a generator function, so it has not happened.
        """
        self.is_told = True
        known = self.now.get(key)
        if known is not None and (key not in self.fresh or key in self.left_open):
            if known.word == "done" and known.has_value:
                return known.value
            if await self._is_settled(key, known, effect, settled):
                return known.value
        refuse_generator(effect)
        standing = self.now[key] = Standing(can_be_settled=settled is not None)
        self.fresh.add(key)
        await self.save(self)
        try:
            value = await at_destination(effect)
        except BaseException as raised:
            error = failure_of(raised)
            if says_not_done(error):
                del self.now[key]
                raise
            standing.word = "failed"
            if settled is None or not await self._is_settled(key, standing, effect, settled):
                raise error from error.__cause__
            return standing.value
        _keep(key, standing, value, effect)
        return standing.value

    async def _is_settled(
        self, key: str, standing: Standing, effect: Action[object], settled: Settled | None
    ) -> bool:
        """Ask the destination about an effect that has begun; False if it may be done now.

        Raises:
            MCPError: -32603, the destination cannot say, or cannot be asked.
        """
        if settled is None:
            if self.may_repeat:
                return False
            raise in_doubt([key])
        try:
            found = await ask_destination(key, settled)
        except MCPError:
            standing.can_be_settled = False  # until somebody settles it
            self.fresh.discard(key)
            raise
        if found is False:
            del self.now[key]
            return False
        _keep(key, standing, found, effect)
        return True


async def ask_destination(key: str, settled: Settled) -> object:
    """Return what a destination says of an effect that may have happened; False if it has not.

    Raises:
        MCPError: -32603, it cannot say.
    """
    found = await at_destination(settled)
    if found is None:
        raise in_doubt([key])
    return found


def _keep(key: str, standing: Standing, value: object, effect: Action[object]) -> None:
    """Keep the value of an effect that is done, as JSON has it; without it if JSON has none."""
    standing.word = "done"
    try:
        standing.value = _written(key, value, effect)
        text = json.dumps(standing.value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        standing.value, standing.has_value = None, True
        return
    standing.has_value = len(text) <= MAX_VALUE_BYTES


def _written(key: str, value: object, effect: Action[object]) -> Any:
    """Return the JSON of a value that its effect's annotation reads as the same value.

    If there is none, the log says so: the effect is done, so it is too late to refuse the value.
    """
    plain = to_jsonable_python(value)
    for each in (plain, to_jsonable_python(value, by_alias=False)):
        if _is_read_back(value, effect, each):
            return each
    if kind_of(effect) not in _ANY:
        _logger.error(
            "what the effect %r returned, of the type %s, is not the same when it is read back by"
            " its annotation: a secret, an excluded field, or two models with the same fields",
            key,
            type(value).__name__,
        )
    return plain


def _is_read_back(value: object, effect: Action[object], plain: Any) -> bool:
    """Return whether a value is read back from its JSON; True if it cannot be compared.

    A value that is JSON itself may be read as another: a dict as a model.
    """
    try:
        return bool(value in (value_of(effect, plain), plain))
    except Exception:
        return True


_ANY = inspect.Signature.empty, None, Any
"""The annotations that do not say what an effect returns."""


def kind_of(effect: Callable[..., object]) -> Any:
    """Return the type of what an effect returns, as its annotation says; `empty` if none does."""
    try:
        kind: Any = inspect.signature(effect, eval_str=True).return_annotation
    except Exception:  # it has no signature, or an annotation that only a type checker can see
        return inspect.Signature.empty
    return get_args(kind)[-1] if get_origin(kind) in (Awaitable, Coroutine) else kind


def value_of(effect: Callable[..., object], value: Any) -> Any:
    """Return a recorded value as the effect's own annotation has it; as JSON if it has none.

    It is a copy: its author may change it, and the record stays.
    """
    if value is None:
        return None
    value = copy.deepcopy(value)
    kind = kind_of(effect)
    if kind in _ANY:
        return value
    try:
        return TypeAdapter[Any](kind).validate_python(value, by_alias=True, by_name=True)
    except Exception:  # of a type that pydantic does not know, or of a validator of the author's
        return value


# --- of the request that runs -------------------------------------------------------------------

_here: ContextVar[CallEffects | None] = ContextVar("effects", default=None)


def effects_here() -> CallEffects:
    """Return the effects of the call that this code runs for."""
    return _here.get() or CallEffects()


@contextmanager
def keeping_effects(effects: CallEffects | None = None) -> Generator[CallEffects]:
    """Mark a block in which a stand-in tells of a call's effects; a block around it stays."""
    here = effects or _here.get() or CallEffects()
    token = _here.set(here)
    try:
        yield here
    finally:
        _here.reset(token)


# --- what is said -------------------------------------------------------------------------------


_TELL = "Tell the user before anything is done once more."
_IS_KEPT = f"It is recorded, and a call with the same name gets this answer. {_TELL}"
_IS_OPEN = "Tell the user. Who calls again and goes on learns what became of it."


def in_doubt(names: Iterable[str] = (), *, may_run_again: bool = False) -> MCPError:
    """Return the error of a call whose effects may have happened.

    Args:
        names: The effects.
        may_run_again: Whether the same request may be sent again.
    """
    known = ", ".join(map(repr, names))
    what = f" It may have happened: {known}." if known else " Its effects may have happened."
    said = f"Outcome unknown: this round started but no result was recorded.{what}"
    if may_run_again:
        then = "Send it again later."
        return refusal(Reason.INDETERMINATE, said, then, retry_after=AGAIN_SECONDS)
    return refusal(Reason.INDETERMINATE, f"{said} It will not be retried.")


def with_effects(result: types.CallToolResult, effects: CallEffects) -> types.CallToolResult:
    """Return the result of a refused call. A named one says what it has done before."""
    if isinstance(effects.ending, Unknown):
        return result
    if effects.left_open or effects.is_handed_on:
        then = _IS_OPEN if effects.is_named else _TELL
    elif effects.is_named and effects.keeps_name():
        then = _IS_KEPT
        if isinstance(effects.ending, NotDone):
            _logger.error("NotDone was raised after %s was done: the name is kept", effects.done)
    else:
        return result
    known = ", ".join(map(repr, effects.names))
    sentence = f"Before that, this call did something, or may have: {known}. {then}"
    content = [*result.content, types.TextContent(text=sentence)]
    return result.model_copy(update={"content": content})


# --- results ---------------------------------------------------------------------------------


def text(content: str, *, is_error: bool = False) -> types.CallToolResult:
    """Make a result of one text.

    Args:
        content: The text, for the model that called the tool.
        is_error: Whether the tool could not do what it was called for.
    """
    return types.CallToolResult(content=[types.TextContent(text=content)], is_error=is_error)


def outcome_of(error: Exception) -> types.CallToolResult | None:
    """Make the result of a call whose handler raised `Declined`, `Cancelled` or `CannotAsk`.

    So it does of `NotDone` and `Unknown`. It is None for another exception. A declined or cancelled
    question is a plain text. A client that cannot be asked gets the question's `unasked` as an
    error. An answer that does not fit (`BadAnswer`) is the JSON-RPC error -32602.
    """
    match error:
        case Declined():
            return text(f"The question {error.key!r} was declined.")
        case Cancelled():
            return text(f"The question {error.key!r} was cancelled.")
        case NotDone():
            return text(str(error))
        case CannotAsk() | Unknown():
            return text(str(error), is_error=True)
        case _:
            return None
