"""The request that the running code answers: its server, its caller, its protection.

What the parts of a server tell each other of a request is in one object, the `Request`, under one
context variable. `protection.ProtectedRounds` makes it. Knows `handler`, `keys` and `reasons`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from mcp import MCPError
from mcp.server.request_state import authenticated_principal
from pydantic import BaseModel

from mrtr_options.sdk.handler import (
    Clock,
    Context,
    NotBegun,
    Params,
    Principal,
    arguments_of,
    arguments_that_fit,
    refusal,
)
from mrtr_options.sdk.keys import ByHand
from mrtr_options.sdk.reasons import Reason


def _fits(state: str) -> bool:
    """Return True: no server of ours bounds the state."""
    return True


@dataclass(slots=True)
class Request:
    """A request. It may run its handler several times, one after the other.

    Attributes:
        server: The name of the server it came to.
        principal: Names its caller.
        is_protected: Whether states are sealed and checked.
        call: The name of its call; None where its state is not this server's.
        number: The round in its call: 1 for the first, one more than the round that asked for every
            other; 0 where it is not known.
        is_in_time: Whether its state is young enough.
        is_too_long: Whether the state that it hands out is longer than a token may be.
        latest: The run that last read an answer by hand; None if none did.
        arguments: Its arguments as its tool's model reads them; None if no tool has read them.
        misfit: The refusal of arguments that do not fit; None if they do.
        clock: Tells the time, in seconds since 1970.
        fits: Tells whether a state is short enough to travel.
    """

    server: str | None = None
    principal: Principal = authenticated_principal
    is_protected: bool = True
    call: str | None = None
    number: int = 0
    is_in_time: bool = True
    is_too_long: bool = False
    latest: ByHand | None = None
    arguments: BaseModel | None = None
    misfit: MCPError | None = None
    clock: Clock = time.time
    fits: Callable[[str], bool] = _fits

    def begin_call(self) -> None:
        """Make it the first round of a new call."""
        self.call = secrets.token_urlsafe(16)
        self.number = 1


current_request: ContextVar[Request | None] = ContextVar("request", default=None)
"""The request that this code runs for; None for code that runs for none."""


def keep_arguments(model: type[BaseModel], params: Params) -> None:
    """Keep the arguments of this request as its tool's model reads them, for its call's name.

    Whoever finds the call unknown refuses those that do not fit; see `check_arguments`.
    """
    this = request_here()
    current_request.set(this)  # for code that runs for no request
    this.misfit = None
    try:
        this.arguments = arguments_of(params, model)
    except MCPError as error:
        this.arguments = arguments_that_fit(params, model)
        this.misfit = error


def check_arguments(effects: Collection[str] = ()) -> None:
    """Refuse arguments that do not fit, in the words of a call that may have had these effects.

    Raises:
        MCPError: -32602; as a `NotBegun`, so that what was reserved for it is given back.
    """
    misfit = request_here().misfit
    if misfit is None:
        return
    said = misfit.message
    if effects:
        said += f" Before that, this call did something, or may have: {', '.join(effects)}."
    raise NotBegun(misfit.code, said)


def request_here() -> Request:
    """Return the request that this code runs for; one that nothing protects where there is none."""
    return current_request.get() or _unprotected_request()


def _unprotected_request() -> Request:
    return Request(is_protected=False)


@contextmanager
def protected(server: str | None) -> Generator[None]:
    """Mark a block in which a server of this name seals states and checks them.

    All else is as in the request around it: its caller, its clock, the longest state.
    """
    around = request_here()
    token = current_request.set(
        Request(server, around.principal, clock=around.clock, fits=around.fits)
    )
    try:
        yield
    finally:
        current_request.reset(token)


def check_protected() -> None:
    """Raise an error if the states of this request are not protected.

    Raises:
        MCPError: -32603, this request did not come through `ProtectedRounds`.
    """
    if not request_here().is_protected:
        raise refusal(
            Reason.STATE_NOT_PROTECTED,
            "This server does not protect the state of its calls, and anyone could write one.",
            "Its author must build it with mrtr_options.sdk.build_server, or add"
            " sdk.protect(server).",
        )


def caller_of(ctx: Context) -> str | None:
    """Name the caller, by the settings of the server; None for one without a name."""
    return request_here().principal(ctx) or None


def by_hand(params: object) -> ByHand:
    """Return the run of a handler with these parameters."""
    this = request_here()
    current_request.set(this)  # for code that runs for no request
    if this.latest is None or this.latest.params is not params:
        this.latest = ByHand(params)
    return this.latest
