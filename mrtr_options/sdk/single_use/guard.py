"""The single-use guard: a wrapper that runs every round with a state at most once.

A client that lost a response re-issues the request, and a stateless option cannot tell the
duplicate from the first. The guard can: it puts a number that is valid for one round into every
state, and reserves that number in a store that all instances share before the round runs.

- A duplicate (same state, same answers; at once or later, on any instance) gets the recorded
  response, and the handler does not run. The response says in its `_meta` that it is a repeat, and
  since when (`call_key.REPEAT`).
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

Only answers to what the round asked reach the handler (none in a first round, which has asked
nothing), and only those that fit the question's schema. An answer that does not fit is refused
before anything is reserved, and may be corrected until the round has run.
The round is given back, too, where the handler itself finds an answer bad, or asks its question
again because no answer came: what ran before had run when the question was first asked. So is one
in which no code of the tool's ran (`NotBegun`): option H's store is full, or the call waits on
another instance. In a round that asked several questions an effect may stand between two answers,
so there a bad answer that the handler finds is recorded.

Named calls
-----------
The first request of a call carries no state, so two first requests are two calls, unless they have
one name (`call_key`): what the author says in `call=`, else the client's call key. Then the first
round is taken like any other, under the name:

- A first request of a known name gets the call's result, or the question that is open now. So
  nothing is asked or done again, whichever response was lost.
- The same name with other arguments is refused.
- A call key that is older than the store remembers rounds is refused, and so is one whose call was
  in a store that is lost. Give the store a `keep_seconds` that is longer than a state is valid for:
  a client whose state has expired can then still ask under its key what became of the call.
- A name of the server's is known for `call_seconds` after the last round of its call. After that,
  and after a store is lost, it begins another call.
- A call whose question was not answered while its state was valid frees a name of the server's.
- A call that ended in `Declined`, `Cancelled`, `CannotAsk` or `NotDone` frees a name of the
  server's: a user who wants it is asked again. A call key stays with its call.
- A call that has had an effect frees no name. Its refusal says what was done before. A question of
  such a call that nobody answered in time is asked again, in the same call.

What a name costs: two calls that are meant to be two, under one name, are one. The second gets the
first one's result, which says that it is a repeat.

`attempts` is for handlers whose every effect has an idempotency key that its destination honours,
as in option J. A round that fails is then tried again at once, and one whose outcome is not known
is run again instead of being refused: its effects are absorbed.

What it costs: a store; and a round that has begun is finished and recorded even when its client is
gone (it is shielded from cancellation for up to `round_seconds`).

Knows MCP's types, `call_key` and the modules beside it.
"""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import cast

import anyio
import mcp_types as types
from mcp.server.session import ServerSession

from mrtr_options.checks import check_numbers, check_whole
from mrtr_options.sdk.call_key import (
    CallFunction,
    CallName,
    CallNaming,
    naming_calls,
)
from mrtr_options.sdk.current_request import caller_of
from mrtr_options.sdk.effects import CallEffects, in_doubt
from mrtr_options.sdk.handler import (
    TELLS_EFFECTS,
    Context,
    Handler,
    Params,
    Principal,
    Result,
    check_handler,
    check_result,
    mark_times,
    refusal,
    telling_of,
)
from mrtr_options.sdk.protection import state_expired
from mrtr_options.sdk.questions import BadAnswer
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.single_use.outcomes import check_note, read_outcome, write_response
from mrtr_options.sdk.single_use.refusals import store_full, store_unusable
from mrtr_options.sdk.single_use.reservations import (
    Abandoned,
    Claim,
    Forgotten,
    Full,
    Pending,
    Spent,
    Stamp,
    Store,
    Unanswered,
    Unusable,
)
from mrtr_options.sdk.single_use.round_state import (
    RoundState,
    asked_afresh,
    begins_of,
    check_answers,
    digest_of_answers,
    load,
    put_in_new_round,
    with_deadline,
)
from mrtr_options.sdk.single_use.running import SessionOfGuest, TakenRound
from mrtr_options.sdk.writing import digest

_logger = logging.getLogger(__name__)

MAX_WAITERS = 16
"""The most deliveries of one round that wait for its outcome.

One more is told that the round is at work.
"""

CALL_SECONDS = 24 * 3600.0
"""The time for which a call is known by the name that the server gave it, by default."""


def single_use(  # noqa: PLR0913
    store: Store,
    *,
    call: str | CallFunction | None = None,
    call_seconds: float = CALL_SECONDS,
    call_is_secret: bool = False,
    same: Sequence[str] | None = None,
    caller: Principal | None = None,
    repeat_note: str | None = None,
    wait_seconds: float = 10.0,
    round_seconds: float = 60.0,
    attempts: int = 1,
) -> Callable[[Handler], Handler]:
    """Make a wrapper that runs every round with a state at most once.

    So it does with every first round of a call that has a name: what `call` says, else the
    client's call key.

        single_use(store, call="reference")

    Args:
        store: Shared by all instances that may take a round.
        call: Names calls, whether or not the client made a key: the name of an argument, such as a
            reference that is new for each intention; or a function of caller and arguments. Calls
            with one name are one call for each caller, at this tool of this server. An argument
            that is absent, null or empty names none; then, and without `call`, only a call key
            names a call.
        call_seconds: How long after its last round a call is known by the name that `call` gave it:
            longer than a state is valid for, or a call may begin again while its question is open.
        call_is_secret: Whether only one caller can know what `call` takes for a name. Without it a
            server that does not know its callers is refused, since two strangers would share a
            call.
        same: The arguments that a call made again must have, too, such as ("amount", "to"); by
            default all. Any others may be worded anew.
        caller: Whose calls share names: `subject_of` for one user, however often their client
            registers anew. None for the principal that states are bound to.
        repeat_note: A sentence for the model, put before the content of a result that a call gets
            because an earlier one had its name; "{since}" in it is the time of the first. None to
            say so in `_meta` alone.
        wait_seconds: How long a second delivery waits for the first before it is told that the
            round is still at work; 0 not to wait.
        round_seconds: How long a round may take. Beyond it the round is indeterminate, and no
            delivery waits for it.
        attempts: How often a delivery tries a round that fails. More than once only where every
            effect has an idempotency key that its destination honours: then a round that failed, or
            whose process died, runs again each time that its request is sent again.

    Raises:
        TypeError: What is given is not a store, `call` names no calls, or `attempts` is no whole
            number.
        ValueError: A number is not over 0, or the note is empty or too long.
    """
    # A wait of 0 is fit: none waits.
    check_numbers("single_use", wait_seconds or 1, round_seconds, attempts, call_seconds)
    check_note(repeat_note)
    check_whole("single_use", attempts=attempts)
    if isinstance(store, type) or not hasattr(store, "reserve"):
        raise TypeError(
            "single_use takes a store first and goes around a handler then:"
            ' single_use(SqliteStore("rounds.sqlite"))(handler)'
        )
    naming = CallNaming(call, call_is_secret, same, caller)

    def wrap(handler: Handler) -> Handler:
        check_handler(handler, "single_use")
        guard = _Guard(
            handler=handler,
            store=store,
            naming=naming,
            call_seconds=call_seconds,
            repeat_note=repeat_note,
            wait_seconds=wait_seconds,
            round_seconds=round_seconds,
            attempts=attempts,
            tells_effects=hasattr(handler, TELLS_EFFECTS),
            keep_seconds=getattr(store, "keep_seconds", math.inf),
        )

        @wraps(handler)
        async def guarded(ctx: Context, params: Params) -> Result:
            return await guard.deliver(ctx, params)

        of_names = {} if call is None else {"call_seconds": call_seconds}
        marked = mark_times(guarded, keep_seconds=guard.keep_seconds, **of_names)
        return naming_calls(marked, naming)

    return wrap


@dataclass(frozen=True, kw_only=True)
class _Guard:
    """The guard of one handler; see `single_use`.

    Attributes:
        waiting: How many deliveries wait for a round that another one runs, by the round's number.
        told: The tools for which the log says that calls are not guarded.
    """

    handler: Handler
    store: Store
    naming: CallNaming
    call_seconds: float
    repeat_note: str | None
    wait_seconds: float
    round_seconds: float
    attempts: int
    tells_effects: bool
    keep_seconds: float
    waiting: Counter[str] = field(default_factory=Counter[str])
    told: set[str] = field(default_factory=set[str])

    async def deliver(self, ctx: Context, params: Params) -> Result:
        """Return the response to one delivery of a round."""
        caller = caller_of(ctx)
        name = None
        if params.request_state is not None:
            state = load(params.request_state)
        else:
            name = self.naming.name_of(ctx, params, caller)
            if name is None:
                return await self.begin(ctx, params)
            state = RoundState.of_first_round(name)
        effects = state.effects_so_far(may_repeat=self.attempts > 1)
        with telling_of(lambda: effects.names):
            try:
                answers = check_answers(state, params.input_responses or {})
            except BadAnswer:  # the round may have run with another answer
                look_at_effects = partial(self.store.effects, self.claim(state, {}, caller, name))
                effects.read(await self.wait(state.number, look_at_effects))
                raise
            claim = self.claim(state, answers, caller, name)
            claim.effects = effects.write()
            taking = _Taking(self.round_seconds)

            async def look() -> str | None:
                taking.begin()
                return await self.take(claim, name, taking)

            recorded = await self.wait(claim.number, look)
            if recorded is not None:
                return self.repeat(recorded, name)
            request = params.model_copy(
                update={"request_state": state.state, "input_responses": answers or None}
            )
            guest = replace(ctx, session=cast("ServerSession", SessionOfGuest(ctx.session)))
            effects.read(taking.effects)

            async def handle() -> Result:
                effects.fresh.clear()
                return check_result(await self.handler(guest, request))

            taken = TakenRound(
                self.store, self.attempts, claim, state, taking.until, effects, self.tells_effects
            )
            done: Result | None = None
            with anyio.CancelScope(shield=True):
                done = await taken.run(handle)
            assert done is not None
            return with_deadline(done, (claim.asked_at or state.begins) + self.keep_seconds)

    async def begin(self, ctx: Context, params: Params) -> Result:
        """Return the response to the first round of a call without a name: it is not recorded.

        Answers that come with it answer nothing: each question of a guarded call has a state.
        """
        unanswered = params.model_copy(update={"input_responses": None})
        result = await self.handler(ctx, unanswered)
        if not isinstance(result, types.InputRequiredResult):
            self.tell_unguarded(params.name)
            return result
        try:
            stamp = await self.store.stamp()
        except Unusable as error:
            raise store_unusable(error, "and cannot ask what this call needs to know") from None
        return with_deadline(put_in_new_round(result, stamp), stamp.at + self.keep_seconds)

    def tell_unguarded(self, tool: str) -> None:
        """Say once that the guard did nothing for a call that asked nothing and has no name."""
        if self.naming.call is None and tool not in self.told:
            self.told.add(tool)
            _logger.warning(
                "a call of %r asked nothing and has no name: the guard keeps no record of it, and"
                " one that is made again is done again; write single_use(store, call=...)",
                tool,
            )

    def claim(
        self,
        state: RoundState,
        answers: types.InputResponses,
        caller: str | None,
        name: CallName | None,
    ) -> Claim:
        """Return this delivery's claim to a round."""
        call = state.call
        arguments = "" if name is None else name.same
        is_named_here = call is not None and call.made is None
        return Claim(
            number=state.number,
            answers=arguments if state.is_first else digest_of_answers(answers),
            begins=state.begins,
            lease_seconds=self.round_seconds,
            caller=None if caller is None else digest(json.dumps(caller)),
            mark=state.mark,
            call=None if call is None else call.handle,
            arguments=arguments,
            made=None if call is None else call.made,
            call_seconds=self.call_seconds if is_named_here else 0.0,
            label=None if name is None else name.label,
            has_begun=state.has_begun,
        )

    async def take(self, claim: Claim, name: CallName | None, taking: _Taking) -> str | None:
        """Take a round.

        Returns:
            None if it is now this delivery's; its recorded outcome if it has run.

        Raises:
            MCPError: Forgotten or spent (-32602); or full (-32603).
            Pending, Unusable: The store says so.
        """
        try:
            return await self.reserve(claim, taking)
        except Unanswered as call:
            return await self.ask_afresh(claim, call.question)
        except Forgotten:
            raise (state_expired() if name is None else refusal(Reason.CALL_KEY_EXPIRED)) from None
        except Spent as error:
            if name is None:
                raise refusal(Reason.ANSWERED_DIFFERENTLY) from None
            raise name.other_arguments(error.became) from None
        except Full:
            raise store_full(claim.caller) from None

    async def ask_afresh(self, claim: Claim, question: str) -> str:
        """Ask the open question of a call again, since it was too old. Its round stays the same.

        Raises:
            Pending: Another delivery has asked it.
        """
        stamp = await self.store.stamp()
        text = asked_again(question, stamp)
        if not await self.store.ask_afresh(replace(claim, asked_at=stamp.at), text):
            raise Pending
        return text

    async def reserve(self, claim: Claim, taking: _Taking) -> str | None:
        """Reserve a round. One whose process died is taken over where it may run again.

        Raises:
            MCPError: -32603, it may not.
        """
        try:
            return await self.store.reserve(claim)
        except Abandoned:
            effects = CallEffects()
            effects.read(await self.store.effects(claim))
            is_known = self.tells_effects or bool(effects.now)
            if self.attempts == 1 and not (is_known and effects.may_run_again):
                raise in_doubt(effects.now) from None
            outcome = await self.take_abandoned(claim)
            # Until it was this delivery's, another one may have begun more.
            taking.effects = await self.store.effects(claim)
            return outcome

    async def take_abandoned(self, claim: Claim) -> str | None:
        """Take a round whose process died, to run it again.

        A first request gets the question of its call's abandoned round, to be answered anew.

        Raises:
            Spent: The round has begun with other answers, whose effects may have happened.
            Pending: Another delivery has taken it, or ended it.
        """
        if claim.is_first and claim.call is not None:
            question = await self.store.outcome(claim.call)
            if question is not None:
                stamp = await self.store.stamp()
                text = asked_again(question, stamp)
                if not await self.store.reopen(replace(claim, asked_at=stamp.at), text):
                    raise Pending
                return text
        if await self.store.take_over(claim):
            return None
        try:  # it is pending if another delivery was first
            return await self.store.reserve(claim)
        except Abandoned:
            raise Spent from None

    def repeat(self, recorded: str, name: CallName | None) -> Result:
        """Return a recorded response.

        Raises:
            MCPError: An error is recorded, or what is recorded cannot be read.
        """
        outcome = read_outcome(recorded, note=None if name is None else self.repeat_note)
        return with_deadline(outcome, begins_of(outcome) + self.keep_seconds)

    async def wait(self, number: str, look: Callable[[], Awaitable[str | None]]) -> str | None:
        """Look at a round until it is not at work elsewhere, and return the result of the look.

        Args:
            number: The round's number.
            look: Takes the round or returns its outcome.

        Raises:
            MCPError: Still at work (-32001); indeterminate or without a store (-32603).
        """
        give_up = anyio.current_time() + self.wait_seconds
        waits = False
        pause = 0.005
        try:
            while True:
                try:
                    return await look()
                except Pending:
                    is_crowd = not waits and self.waiting[number] >= MAX_WAITERS
                    if is_crowd or anyio.current_time() >= give_up:
                        raise refusal(Reason.STILL_AT_WORK) from None
                except Unusable as error:
                    raise store_unusable(error, "and has not begun this one") from None
                if not waits:
                    self.waiting[number] += 1
                waits = True
                await anyio.sleep(pause)
                pause = min(pause * 2, 0.1)
        finally:
            if waits:
                self.waiting[number] -= 1
                if not self.waiting[number]:
                    del self.waiting[number]


def asked_again(question: str, stamp: Stamp) -> str:
    outcome = read_outcome(question)
    assert isinstance(outcome, types.InputRequiredResult)
    return write_response(asked_afresh(outcome, stamp))


@dataclass
class _Taking:
    """The time that a round may take, from the look that takes it.

    Attributes:
        until: Its end, by the event loop's clock: not after the lease that the store gives.
        effects: The effects that it began when another delivery ran it.
    """

    round_seconds: float
    until: float = 0.0
    effects: str | None = None

    def begin(self) -> None:
        self.until = anyio.current_time() + self.round_seconds
