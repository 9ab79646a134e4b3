"""The single-use guard: a wrapper that runs every round with a state at most once.

A client that lost a response re-issues the request, and a stateless option cannot tell the
duplicate from the first. The guard can: it puts a number that is valid for one round into every
state, and reserves that number in a store that all instances share before the round runs.

- A duplicate (same state, same answers; at once or later, on any instance) gets the recorded
  response, and the handler does not run.
- The same state with other answers, or with none, is refused once the round has run. While it runs,
  the other request waits for its outcome: `MAX_WAITERS` of them on each instance, so that many
  requests for one round do not block the store for others.
- A round that was reserved and never recorded (its process died, or it took too long) is
  *indeterminate*, in one clear error. Its effects may have happened, so it does not run a second
  time. Until its `round_seconds` are over it may be at work, and a client is told to send it again
  later.
- A store that cannot be used takes no round. One that has begun is recorded when the store is back:
  its client waits, for as long as a round may take.
- A state that is handed out again is valid for no longer than it was at first, however fresh its
  token: the store forgets its round some time after that.

Only answers to what the round asked reach the handler, and only those that fit the question's
schema. An answer that does not fit is refused before anything is reserved, and may be corrected.
The round is given back, too, where the handler itself finds an answer bad, or asks its question
again because no answer came: what ran before had run when the question was first asked. So is one
in which no code of the tool's ran (`NotBegun`): option H's store is full, or the call waits on
another instance. In a round that asked several questions an effect may stand between two answers,
so there a bad answer that the handler finds is recorded.

The first request of a call carries no state, so two first requests are two calls, unless the client
says with a call key (`call_key`) that they are one. With a key the first round is taken like any
other, under the principal, the tool and the key:

- A first request whose key is known gets the call's result, or the question that is open now. So
  nothing is asked or done again, whichever response was lost.
- The same key with other arguments is refused. So is a key that is older than the store remembers
  rounds, and one whose call was in a store that is lost.
- Give the store a `keep_seconds` that is longer than a state is valid for: a client whose state has
  expired can then still ask under its key what became of the call.

`attempts` is for handlers whose every effect has an idempotency key that its destination honours,
as in option J. A round that fails is then tried again at once, and one whose outcome is not known
is run again instead of being refused: its effects are absorbed.

What it costs: a store; and a round that has begun is finished and recorded even when its client is
gone (it is shielded from cancellation for up to `round_seconds`).

Knows MCP's types, `questions`, `call_key` and `store`; works around any handler that returns its
questions.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Any, Literal, TypeGuard, TypeVar, cast

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.session import ServerSession
from pydantic import BaseModel, TypeAdapter

from mrtr_options.checks import check_numbers
from mrtr_options.sdk.call_key import CALL, call_key_of, digest_of, other_arguments, too_old
from mrtr_options.sdk.handlers import (
    Context,
    Handler,
    Params,
    Result,
    caller_of,
    check_handler,
    check_protected,
    checked_result,
)
from mrtr_options.sdk.protection import state_expired
from mrtr_options.sdk.questions import (
    MAX_STATE_BYTES,
    BadAnswer,
    NotBegun,
    bad_answer,
    checked_form,
    invalid_state,
    validator_of,
)
from mrtr_options.sdk.single_use.store import (
    Abandoned,
    Claim,
    Forgotten,
    Full,
    Pending,
    Spent,
    Store,
    Unusable,
)

T = TypeVar("T")
OutcomeT = TypeVar("OutcomeT")

MAX_RESPONSE_BYTES = 256 * 1024
"""The longest recorded response; a longer one is given once and cannot be repeated."""

MAX_WAITERS = 16
"""How many deliveries of one round wait for its outcome; one more is told at once that it is at
work.
"""

TOLD_SECONDS = 2.0
"""How long progress of a round waits for its client to take it."""

_MAX_SCHEMA_BYTES = 2 * 1024

_logger = logging.getLogger(__name__)


class _State(BaseModel):
    """The state that travels.

    Attributes:
        number: The guard's, for the next round.
        begins: When that number was first handed out, by the store's clock.
        asked: The questions of the round, by key: the schema of a form, unless it is long; None for
            what the handler alone can check.
        state: The handler's own.
    """

    number: str
    begins: float
    asked: dict[str, dict[str, Any] | None]
    state: str | None

    @property
    def is_first(self) -> bool:
        """Whether it is of a first round, under a call key. What asked nothing has a state."""
        return not self.asked and self.state is None


class _Refusal(types.ErrorData):
    """A recorded JSON-RPC error."""

    kind: Literal["error"] = "error"


_Outcome = _Refusal | types.InputRequiredResult | types.CallToolResult
_OUTCOME = TypeAdapter[Any](_Outcome | types.GetPromptResult | types.ReadResourceResult)


def single_use(
    store: Store,
    *,
    wait_seconds: float = 10.0,
    round_seconds: float = 60.0,
    attempts: int = 1,
) -> Callable[[Handler], Handler]:
    """A wrapper that runs every round with a state, and every first round with a call key, at most
    once.

    Args:
        store: Shared by all instances that may take a round.
        wait_seconds: How long a second delivery waits for the first before it is told that the
            round is still at work; 0 not to wait.
        round_seconds: How long a round may take. Beyond it the round is indeterminate, and no
            delivery waits for it.
        attempts: How often a round that fails is tried. More than once only where every effect has
            an idempotency key that its destination honours.

    Raises:
        TypeError: What is given is not a store.
        ValueError: A number is not over 0.
    """
    check_numbers("single_use", wait_seconds or 1, round_seconds, attempts)  # 0: none waits
    if isinstance(store, type) or not hasattr(store, "reserve"):
        raise TypeError(
            "single_use takes a store first and goes around a handler then:"
            ' single_use(SqliteStore("rounds.sqlite"))(handler)'
        )

    def wrap(handler: Handler) -> Handler:
        check_handler(handler, "single_use")
        guard = _Guard(handler, store, wait_seconds, round_seconds, attempts)

        @wraps(handler)
        async def guarded(ctx: Context, params: Params) -> Result:
            return await guard.deliver(ctx, params)

        return guarded

    return wrap


@dataclass(frozen=True)
class _Guard:
    """One handler's; see `single_use`.

    Attributes:
        waiting: How many deliveries wait for a round that another one runs, by the round's number.
    """

    handler: Handler
    store: Store
    wait_seconds: float
    round_seconds: float
    attempts: int
    waiting: Counter[str] = field(default_factory=Counter[str])

    async def deliver(self, ctx: Context, params: Params) -> Result:
        caller = caller_of(ctx)
        if params.request_state is not None:
            state = _load(params.request_state)
        elif ctx.method != "resources/read" and (key := call_key_of(ctx, params)) is not None:
            number = key.call_of(caller, params.name)
            state = _State(number=number, begins=key.made, asked={}, state=None)
        else:
            result = await self.handler(ctx, params)
            try:
                return await _in_new_round(result, self.store.now)
            except Unusable as error:
                raise _unusable(error, "and cannot ask what this call needs to know") from None
        answers = _checked(state, params.input_responses or {})
        digest = digest_of(params.arguments) if state.is_first else _digest(answers)
        claim = Claim(state.number, digest, state.begins, self.round_seconds, caller)
        give_up = anyio.current_time() + self.wait_seconds
        until = 0.0

        async def take() -> str | None:
            nonlocal until
            until = (
                anyio.current_time() + self.round_seconds
            )  # not after the lease that the store gives
            return await self.take(claim, state.is_first)

        recorded = await self.wait(state.number, take, give_up)
        if recorded is not None:
            outcome = _read(recorded)
            if state.is_first and isinstance(outcome, types.InputRequiredResult):
                outcome = _named(
                    await self.latest(outcome, give_up), (outcome.meta or {}).get(CALL)
                )
            if isinstance(outcome, _Refusal):
                raise MCPError.from_error_data(outcome)
            return outcome
        params = params.model_copy(
            update={"request_state": state.state, "input_responses": answers or None}
        )
        done: Result | None = None
        told = replace(ctx, session=cast("ServerSession", _Session(ctx.session)))

        async def handle() -> Result:
            return checked_result(await self.handler(told, params))

        with anyio.CancelScope(shield=True):
            done = await _Taken(self, claim, state, until).run(handle)
        assert done is not None
        return done

    async def take(self, claim: Claim, is_first: bool) -> str | None:
        """Take a round; its recorded outcome if it has run.

        Raises:
            MCPError: Forgotten or spent (-32602); or full (-32603).
        """
        try:
            return await self.store.reserve(claim)
        except Abandoned:
            if self.attempts == 1:
                raise
            if await self.store.take_over(claim):
                return None
            raise Pending from None  # another delivery was first
        except Forgotten:
            raise (too_old() if is_first else state_expired()) from None
        except Spent:
            if is_first:
                raise other_arguments() from None
            raise MCPError(
                types.INVALID_PARAMS,
                "This round has been answered differently before.",
                {"reason": "round_spent"},
            ) from None
        except Full:
            raise MCPError(
                types.INTERNAL_ERROR,
                "This server remembers as many rounds as it may, of all callers or of you. Try again"
                " later.",
                {"reason": "too_many_rounds"},
            ) from None

    async def wait(
        self, number: str, look: Callable[[], Awaitable[str | None]], give_up: float
    ) -> str | None:
        """What is known about a round once it has ended.

        Args:
            number: The round's number.
            look: Finds it out.
            give_up: Until when to wait, by the event loop's clock.

        Raises:
            MCPError: Still at work (-32001); indeterminate or without a store (-32603).
        """
        waits, pause = False, 0.005
        try:
            while True:
                try:
                    return await look()
                except Pending:
                    is_crowd = not waits and self.waiting[number] >= MAX_WAITERS
                    if is_crowd or anyio.current_time() >= give_up:
                        raise _still_at_work() from None
                except Unusable as error:
                    raise _unusable(error, "and has not begun this one") from None
                except Abandoned:
                    raise _indeterminate() from None
                self.waiting[number] += not waits
                waits = True
                await anyio.sleep(pause)
                pause = min(pause * 2, 0.1)
        finally:
            if waits:
                self.waiting[number] -= 1
                if not self.waiting[number]:
                    del self.waiting[number]

    async def latest(self, outcome: _Outcome, give_up: float) -> _Outcome:
        """What a call has come to: from its first outcome, each round leads to the next.

        Where an abandoned round may be run again, its question is open.
        """

        async def look(number: str) -> str | None:
            try:
                return await self.store.outcome(number)
            except Abandoned:
                if self.attempts > 1:
                    return None
                raise

        while isinstance(outcome, types.InputRequiredResult):
            following = _load(outcome.request_state or "").number
            recorded = await self.wait(following, partial(look, following), give_up)
            if recorded is None:
                break
            outcome = _read(recorded)
        return outcome


@dataclass(frozen=True)
class _Taken:
    """A round that this delivery runs. Where the store cannot be used, it may be a moment later.

    Attributes:
        guard: Whose round it is.
        claim: What the round was taken with.
        state: The state that came.
        until: How long the round may take, by the event loop's clock. Beyond it it is
            indeterminate.
    """

    guard: _Guard
    claim: Claim
    state: _State
    until: float

    async def run(self, handle: Callable[[], Awaitable[Result]]) -> Result:
        """The handler's result, recorded; or its error, recorded or not."""
        result: Result | None = None
        may_run_again = self.guard.attempts > 1
        try:
            with anyio.CancelScope(deadline=self.until):
                result = await self.tried(handle)
        except NotBegun:
            await self.release()
            raise
        except MCPError as error:
            if bad_answer(error) is not None and len(self.state.asked) == 1:
                await self.release()
            else:
                await self.record(_refusal(error))
            raise
        except Exception:
            if may_run_again:
                await self.release()
            else:
                # The handler failed half-way: which of its effects happened is not known.
                await self.record(_refusal(_indeterminate()))
            raise
        if result is None:
            _logger.warning("a round took longer than its lease; its outcome is not known")
            error = _indeterminate(may_run_again)
            if not may_run_again:
                await self.record(_refusal(error))
            raise error
        if self.asks_again(result):  # the user may still answer this round
            await self.release()
            return _in_round(result, self.state.number, self.state.begins)
        try:
            result = await _in_new_round(result, partial(self.insist, self.guard.store.now))
        except MCPError as error:
            await self.record(_refusal(error))
            raise
        if self.state.is_first:
            result = _named(result, secrets.token_urlsafe(16))
        await self.record(result)
        return result

    def asks_again(self, result: Result) -> TypeGuard[types.InputRequiredResult]:
        """Whether it asks what this round was to answer, since no answer came."""
        return (
            isinstance(result, types.InputRequiredResult)
            and self.claim.answers == _digest({})
            and not self.state.is_first
            and set(result.input_requests or {}) == set(self.state.asked)
        )

    async def tried(self, handle: Callable[[], Awaitable[Result]]) -> Result:
        """The result of an attempt that does not fail. An MCPError is the handler's answer."""
        pause = 0.05
        for _ in range(self.guard.attempts - 1):
            try:
                return await handle()
            except MCPError:
                raise
            except Exception as error:
                _logger.warning("a round failed and is tried again: %r", error)
            await anyio.sleep(pause)
            pause *= 2
        return await handle()

    async def record(self, outcome: BaseModel) -> None:
        """Record the result of the round.

        Raises:
            MCPError: -32603, its lease ended, and the result of another run of it is recorded.
        """
        try:
            text = outcome.model_dump_json(by_alias=True, exclude_none=True)
        except ValueError:  # it holds what has no JSON
            await self.record(_refusal(_indeterminate()))
            raise
        if _length(text) > MAX_RESPONSE_BYTES:
            text = _refusal(_indeterminate()).model_dump_json(exclude_none=True)
        if not await self.insist(partial(self.guard.store.record, self.claim, text)):
            raise _indeterminate(self.guard.attempts > 1)

    async def release(self) -> None:
        await self.insist(partial(self.guard.store.release, self.claim))

    async def insist(self, use: Callable[[], Awaitable[T]]) -> T:
        pause = 0.05
        while True:
            try:
                return await use()
            except Unusable as error:
                if anyio.current_time() >= self.until:
                    _logger.error("the outcome of a round is not recorded: %s", error)
                    raise _indeterminate() from None
            await anyio.sleep(pause)
            pause = min(pause * 2, 1.0)


class _Session:
    """The SDK's session of a request whose client may leave while its round goes on: over HTTP a
    notification would then wait for ever. After one that is not taken, all others are dropped.
    """

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._has_left = False

    def __getattr__(self, name: str) -> Any:
        known = getattr(self._session, name)
        tells = name.startswith(("report_", "send_")) and name not in ("send_request", "send_ping")
        return partial(self._tell, known) if tells else known

    async def _tell(self, known: Callable[..., Awaitable[None]], *args: Any, **named: Any) -> None:
        if not self._has_left:
            with anyio.move_on_after(TOLD_SECONDS) as late:
                await known(*args, **named)
            self._has_left = late.cancelled_caught


def _load(text: str) -> _State:
    check_protected()
    try:
        return _State.model_validate_json(text)
    except ValueError:
        raise invalid_state() from None


def _checked(state: _State, responses: types.InputResponses) -> types.InputResponses:
    """The answers to what the round asked.

    Raises:
        BadAnswer: One of them does not fit, or is too long for the next state.
    """
    answers = {key: responses[key] for key in state.asked if key in responses}
    for key, answer in answers.items():
        schema = state.asked[key]
        if schema is None:
            continue
        if not isinstance(answer, types.ElicitResult):
            raise BadAnswer(key, "it is not of the type ElicitResult")
        if answer.action == "accept":
            checked_form(key, validator_of(schema), answer)
        # A handler may keep all answers in its state.
        if _length(json.dumps([state.state, _plain(answers)])) > MAX_STATE_BYTES:
            raise BadAnswer(key, "it is too long")
    return answers


def _read(recorded: str) -> _Outcome:
    try:
        return _OUTCOME.validate_json(recorded)
    except ValueError as error:  # of another version, or damaged
        _logger.error("the recorded outcome of a round cannot be read: %s", type(error).__name__)
        raise _indeterminate() from None


async def _in_new_round(result: Result, now: Callable[[], Awaitable[float]]) -> Result:
    """The result with a new round's number in its state, if it asks.

    Raises:
        MCPError: -32603, the handler's state is too long to travel.
    """
    if not isinstance(result, types.InputRequiredResult):
        return result
    check_protected()
    if _length(json.dumps(result.request_state)) > MAX_STATE_BYTES:
        _logger.error(
            "a call was ended: the handler's state is longer than %s bytes", MAX_STATE_BYTES
        )
        raise MCPError(
            types.INTERNAL_ERROR,
            "The state of this call is too long to travel, so the call ends here. Its effects may have"
            " happened.",
            {"reason": "state_too_long"},
        )
    return _in_round(result, secrets.token_urlsafe(16), await now())


def _named(outcome: OutcomeT, name: object) -> OutcomeT:
    """A question with the name of its call, for a client that has no state of it."""
    if not isinstance(outcome, types.InputRequiredResult):
        return outcome
    return outcome.model_copy(update={"meta": {**(outcome.meta or {}), CALL: name}})


def _in_round(
    result: types.InputRequiredResult, number: str, begins: float
) -> types.InputRequiredResult:
    asked = {key: _schema(request) for key, request in (result.input_requests or {}).items()}
    state = _State(number=number, begins=begins, asked=asked, state=result.request_state)
    return result.model_copy(update={"request_state": state.model_dump_json()})


def _schema(request: types.InputRequest) -> dict[str, Any] | None:
    match request:
        case types.ElicitRequest(params=types.ElicitRequestFormParams(requested_schema=schema)):
            return schema if _length(json.dumps(schema)) <= _MAX_SCHEMA_BYTES else None
        case _:
            return None


def _plain(answers: types.InputResponses) -> dict[str, Any]:
    return {
        key: answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, answer in answers.items()
    }


def _digest(answers: types.InputResponses) -> str:
    return hashlib.sha256(json.dumps(_plain(answers), sort_keys=True).encode()).hexdigest()


def _length(text: str) -> int:
    return len(text.encode())


def _refusal(error: MCPError) -> _Refusal:
    return _Refusal(**error.error.model_dump())


def _unusable(error: Unusable, consequence: str) -> MCPError:
    _logger.error("a round was refused: %s", error)
    return MCPError(
        types.INTERNAL_ERROR,
        f"This server cannot record rounds now, {consequence}. Try again later.",
        {"reason": "store_unusable"},
    )


def _still_at_work() -> MCPError:
    return MCPError(
        types.REQUEST_TIMEOUT,
        "Outcome not known yet: this round started and may still be at work. Send the same request again"
        " later.",
        {"reason": "still_at_work"},
    )


def _indeterminate(again: bool = False) -> MCPError:
    """The outcome of a round is not known.

    Args:
        again: Whether it may be run again.
    """
    then = "Send it again later." if again else "It will not be retried."
    return MCPError(
        types.INTERNAL_ERROR,
        f"Outcome unknown: this round started but no result was recorded. {then}",
        {"reason": "indeterminate"},
    )
