"""A round that a delivery runs: its handler, and the record of how it ended.

Knows MCP's types, `current_request`, `protection`, `questions`, `round_state`, `outcomes` and the
interface of a store.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard, TypeVar

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.session import ServerSession

from mrtr_options.sdk.current_request import request_here
from mrtr_options.sdk.effects import CallEffects, Unknown, in_doubt, keeping_effects
from mrtr_options.sdk.handler import NotBegun, Result, failure_of, tell_effects
from mrtr_options.sdk.protection import state_too_long
from mrtr_options.sdk.questions import question_of_bad_answer
from mrtr_options.sdk.single_use.outcomes import write_error, write_response
from mrtr_options.sdk.single_use.refusals import nothing_done, store_unusable
from mrtr_options.sdk.single_use.reservations import Claim, Store, Unusable
from mrtr_options.sdk.single_use.round_state import (
    RoundState,
    digest_of_answers,
    put_in_new_round,
    put_in_round,
)

T = TypeVar("T")
Handle = Callable[[], Awaitable[Result]]

PROGRESS_SECONDS = 2.0
"""The time that a client has to take a notification of progress."""
GIVE_BACK_SECONDS = 5.0
"""The time limit for giving back a round that was reserved too late to begin."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TakenRound:
    """A round that this delivery has reserved and runs.

    Attributes:
        store: The store that reserved it.
        attempts: The number of times that it is tried.
        claim: Its reservation.
        state: The state that came with it.
        until: Its deadline, by the event loop's clock. After that its outcome is indeterminate.
        effects: The effects of its call.
        tells_effects: Whether its handler tells of all its effects, so that a round without any has
            done nothing.
    """

    store: Store
    attempts: int
    claim: Claim
    state: RoundState
    until: float
    effects: CallEffects
    tells_effects: bool

    async def run(self, handle: Handle) -> Result:
        """Return the handler's result, recorded; or raise its error, recorded or not."""
        if anyio.current_time() >= self.until:
            await self._give_back_unbegun()
        self.effects.save = self._begin_effect
        with keeping_effects(self.effects):
            result = await self._handle(handle)
        if result is None:
            _logger.warning("a round took longer than its lease; its outcome is not known")
            raise await self._end_unknown(is_late=True)
        if self._asks_again(result):  # the user may still answer this round
            await self._release()
            return put_in_round(result, self.state)
        ending = self.effects.ending
        if isinstance(ending, Unknown) or (ending is not None and self.effects.left_open):
            await self._suspend()
            return result
        frees = ending is not None and not self.effects.keeps_name()
        asked_at = None
        if isinstance(result, types.InputRequiredResult):
            result, asked_at = await self._put_in_next_round(result)
        await self._record_response(result, frees, asked_at)
        return result

    async def _give_back_unbegun(self) -> None:
        """Give back a round that waited so long for its store that there is no time to run it.

        Raises:
            MCPError: -32603, this delivery has not begun it.
        """
        await self._release(anyio.current_time() + GIVE_BACK_SECONDS)
        raise store_unusable("it was locked for too long", "and took this one too late to begin it")

    async def _handle(self, handle: Handle) -> Result | None:
        """Return the handler's result; None if it took too long. An error is recorded."""
        result: Result | None = None
        try:
            with anyio.CancelScope(deadline=self.until):
                result = await self._try_handler(handle)
        except NotBegun:
            await self._release()
            raise
        except MCPError as error:
            is_bad_answer = question_of_bad_answer(error) is not None
            if is_bad_answer and (len(self.state.asked) == 1 or self._has_done_nothing):
                await self._release()
            else:
                tell_effects(error, self.effects.names)
                await self._record(write_error(error))
            raise
        except BaseException as raised:
            error = failure_of(raised)
            _logger.warning("a round failed", exc_info=error)
            raise await self._end_unknown() from error
        return result

    async def _try_handler(self, handle: Handle) -> Result:
        """Return the result of an attempt that does not fail. An `MCPError` is an answer."""
        pause = 0.05
        for _ in range(self.attempts - 1):
            try:
                return await handle()
            except MCPError:
                raise
            except Exception as error:
                _logger.warning("a round failed and is tried again: %r", error)
            await anyio.sleep(pause)
            pause *= 2
        return await handle()

    @property
    def _has_done_nothing(self) -> bool:
        """The answer to whether its handler tells of its effects, and has begun none."""
        return (self.effects.is_told or self.tells_effects) and not self.effects.now

    async def _end_unknown(self, *, is_late: bool = False) -> MCPError:
        """Return the error of a round that failed half-way, or took longer than its lease."""
        effects = self.effects
        if self._has_done_nothing:
            await self._release()
            return nothing_done(effects.before)
        may_run_again = self.attempts > 1 or (effects.is_told and effects.may_run_again)
        error = in_doubt(effects.now, may_run_again=may_run_again)
        self._log_doubt(effects.now)
        if may_run_again and (effects.now or is_late):
            await self._suspend()
        elif may_run_again:
            await self._release()
        else:
            await self._record(write_error(error))
        return error

    def _too_long(self) -> MCPError:
        """Return the error of a round whose next state is too long to travel."""
        effects = self.effects.names
        if effects:
            self._log_doubt(effects)
        return state_too_long(effects)

    def _log_doubt(self, begun: Iterable[str]) -> None:
        what = self.claim.label or self.claim.number
        effects = ", ".join(begun) or "nothing known"
        _logger.error("a call is in doubt: %s; it had begun %s", what, effects)

    def _asks_again(self, result: Result) -> TypeGuard[types.InputRequiredResult]:
        """Return whether a result asks this round's own questions again, since no answer came."""
        return (
            isinstance(result, types.InputRequiredResult)
            and not self.state.is_first
            and self.claim.answers == digest_of_answers({})
            and set(result.input_requests or {}) == set(self.state.asked)
        )

    async def _put_in_next_round(self, result: types.InputRequiredResult) -> tuple[Result, float]:
        """Return a question with the number of its round, and when that was handed out."""
        try:
            stamp = await self._insist(self.store.stamp, self.until)
            asked = put_in_new_round(result, stamp, self.state.call, self.effects, has_begun=True)
            if not request_here().fits(asked.request_state or ""):
                raise self._too_long()
        except MCPError as error:
            await self._record(write_error(error))
            raise
        return asked, stamp.at

    # --- the record ---

    async def _record_response(
        self, response: types.Result, frees: bool, asked_at: float | None
    ) -> None:
        try:
            text = write_response(response)
        except ValueError as error:
            unknown = in_doubt(self.effects.now)
            await self._record(write_error(unknown))
            raise unknown from error
        await self._record(text, frees, asked_at)

    async def _record(
        self, outcome: str, frees: bool = False, asked_at: float | None = None
    ) -> None:
        """Record the outcome of the round; see `Claim`.

        Raises:
            MCPError: -32603, its lease ended, and the outcome of another run of it is recorded.
        """
        self._write_effects()
        self.claim.frees = frees
        self.claim.asked_at = asked_at
        if not await self._insist(partial(self.store.record, self.claim, outcome), self.until):
            raise in_doubt(may_run_again=self.attempts > 1)

    def _write_effects(self) -> None:
        """Write the effects of the call into the round's claim."""
        self.claim.effects = self.effects.write()

    async def _begin_effect(self, effects: CallEffects) -> None:
        """Record that an effect begins.

        Raises:
            MCPError: -32603, this delivery does not run the round any more.
        """
        self._write_effects()
        if not await self._insist(partial(self.store.begin_effect, self.claim), self.until):
            raise in_doubt(effects.now)

    async def _suspend(self) -> None:
        """Leave the round to the next delivery, which runs it again."""
        self._write_effects()
        await self._insist(partial(self.store.suspend, self.claim), self.until)

    async def _release(self, deadline: float | None = None) -> None:
        """Give the round back. If it has begun an effect, the next delivery takes that over."""
        give_back = self.store.release
        if self.effects.now:
            self._write_effects()
            self.claim.answers = ""
            give_back = self.store.suspend
        await self._insist(partial(give_back, self.claim), deadline or self.until)

    async def _insist(self, use: Callable[[], Awaitable[T]], deadline: float) -> T:
        """Use the store as soon as it can be used.

        Raises:
            MCPError: -32603, it cannot be used by the deadline.
        """
        pause = 0.05
        while True:
            try:
                return await use()
            except Unusable as error:
                if anyio.current_time() >= deadline:
                    _logger.error("the outcome of a round is not recorded: %s", error)
                    raise in_doubt() from None
            await anyio.sleep(pause)
            pause = min(pause * 2, 1.0)


class SessionOfGuest:
    """The SDK's session of a request whose client may leave while its round goes on.

    Over HTTP a notification would then wait for ever. After one that is not taken, all others are
    dropped.
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
            with anyio.move_on_after(PROGRESS_SECONDS) as late:
                await known(*args, **named)
            self._has_left = late.cancelled_caught
