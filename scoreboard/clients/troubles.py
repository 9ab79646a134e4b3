"""The troubles: things that go wrong in one call of a client, each with a name.

Knows the proxy's faults and the made-up responses; nothing of any client or server.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from mrtr_options.review.bench.messages import Era
from scoreboard.clients.proxy import Break, How
from scoreboard.clients.refusals import NEED_TOKENS, REFUSALS, Refusal

MODERN = "2026-07-28"
"""The first version of the modern era."""

THINK_SECONDS = 75.0
"""The time that a slow user thinks about the first question."""

FIRST = 1
"""The first message of the call: a question."""

INTERIM = 2
"""The second message: a question that depends on the first answer."""

FINAL = 3
"""The third message: the result."""


@dataclass(frozen=True)
class Trouble:
    """Something that goes wrong in one call, which asks two questions.

    Attributes:
        name: Its name in the table and for `--only`.
        says: The trouble in a sentence.
        how: The kind of the fault that breaks a response, if any.
        at: The number of the broken message.
        legacy_at: The number of the broken message for a legacy client, if it is another one.
        eras: The eras in which it is played.
        hostile: The name of the made-up responses (see `hostile`); None if a server answers.
        as_stream: Whether the made-up responses are event streams.
        thinks: The time that the user thinks about the first question, in seconds.
        place: The user's wrong first answer to the first question, if any.
        stdio: Whether the client speaks to its own server process, which loses a response.
        again: Whether the application calls again if it got no result.
        asks: Whether it needs a client that can ask its user a question.
        waits: Whether it may take a while.
    """

    name: str
    says: str
    how: How | Refusal | None = None
    at: int = FINAL
    legacy_at: int | None = None
    eras: tuple[Era, ...] = ("modern",)
    hostile: str | None = None
    as_stream: bool = False
    thinks: float = 0.0
    place: str | None = None
    stdio: bool = False
    again: bool = False
    asks: bool = False
    waits: bool = False

    def fault(self, era: Era) -> Break | None:
        """Return the response that breaks for a client of this era, if any."""
        if self.how is None:
            return None
        return Break(self.how, self.at if era == "modern" else self.legacy_at or self.at)

    @property
    def meets_server(self) -> bool:
        """Return whether a server answers the call; otherwise the responses are made up."""
        return self.hostile is None

    @property
    def refuses(self) -> bool:
        """Return whether another answer takes the place of a response: one to send again after."""
        return self.how in REFUSALS

    @property
    def needs_token(self) -> bool:
        """Return whether it needs a client that can get a token."""
        return self.how in NEED_TOKENS

    @property
    def loses(self) -> bool:
        """Return whether one response of a call that is made once does not reach the client.

        A late response is not lost, and a refused request has a response.
        """
        if self.again:
            return False
        return self.stdio or not (self.how in (None, "slow") or self.refuses)


_BOTH: tuple[Era, ...] = ("modern", "legacy")


_in_both = partial(Trouble, eras=_BOTH)


def _made_up(name: str, says: str, hostile: str | None = None, **more: Any) -> Trouble:
    return Trouble(name, says, hostile=hostile or name, **more)


def _refused(how: Refusal) -> str:
    _, said = REFUSALS[how]
    return f"{said[0].upper()}{said[1:]}."


_LOST = "The connection is closed"

TROUBLES = {
    trouble.name: trouble
    for trouble in (
        _in_both("none", "Nothing goes wrong."),
        _in_both("cut-first", f"{_LOST} before the first question.", "cut", FIRST, asks=True),
        _in_both("cut-interim", f"{_LOST} before the second question.", "cut", INTERIM, asks=True),
        _in_both("cut-final", f"{_LOST} before the result.", "cut"),
        _in_both("cut-first-again", f"{_LOST} before the first question; called again.",
                 "cut", FIRST, again=True, asks=True),
        _in_both("cut-interim-again", f"{_LOST} before the second question; called again.",
                 "cut", INTERIM, again=True, asks=True),
        _in_both("cut-final-again", f"{_LOST} before the result; called again.", "cut", again=True),
        Trouble("reset-first", "The connection is reset before the first question.", "reset",
                FIRST),
        Trouble("reset-interim", "The connection is reset before the second question.", "reset",
                INTERIM),
        Trouble("reset-final", "The connection is reset before the result.", "reset"),
        _in_both("503", "A gateway answers 503 with Retry-After; the server was not reached.",
                 "503", FINAL, FIRST),
        _in_both("502", "A gateway answers 502 with Retry-After; the server did the work.",
                 "502", FINAL, FIRST),
        _in_both("502-again", "A gateway answers 502; the server did the work; called again.",
                 "502", FINAL, FIRST, again=True),
        *(_in_both(how, _refused(how), how, FINAL, FIRST) for how in ("307", "401", "403")),
        Trouble("-32020", _refused("-32020"), "-32020"),
        _in_both("421", _refused("421"), "421", FINAL, FIRST),
        _in_both("stream-cut", "The event stream is cut off before the result.",
                 "stream-cut", waits=True),
        _in_both("stream-end", "The event stream ends cleanly before the result.",
                 "stream-end", waits=True),
        _in_both("stream-id-cut",
                 "The event stream has event ids and is cut off before the result.",
                 "stream-id-cut", waits=True),
        _in_both("half-event", "The event stream is cut in the middle of the result.",
                 "half-event", waits=True),
        Trouble("half-json", "The connection is closed in the middle of the JSON result.",
                "half-json"),
        Trouble("empty", "The result's body is empty.", "empty", waits=True),
        _in_both("slow", "The result is 75 s late.", "slow", waits=True),
        Trouble("stdio", "Over stdio, the result is lost.", stdio=True, waits=True),
        _in_both("user-thinks", "The user thinks for 75 s about the first question.",
                thinks=THINK_SECONDS, asks=True, waits=True),
        _in_both("bad-answer", "The user's first answer is not one of the choices.",
                place="Ohio", asks=True),
        _made_up("state-only-twice",
                 "Two responses have a state and ask nothing; then comes the result."),
        _made_up("state-only", "Every response has a state and asks nothing.", waits=True),
        _made_up("questions", "Every response asks another question."),
        _made_up("unknown-kind", "The question is of an unknown kind."),
        _made_up("mixed-kinds", "One of two questions is of an unknown kind."),
        _made_up("nothing-asked", "`input_required` with no question and no state."),
        _made_up("no-result-type", "The result has no `resultType`."),
        _made_up("unknown-result-type", "The `resultType` is \"banana\"."),
        _made_up("long-state", "The state is 1 MiB long."),
        _made_up("long-state-stream", "The state is 1 MiB long, in an event stream.",
                 "long-state", as_stream=True),
        _made_up("state-is-a-number", "The state is the number 42."),
        _made_up("asked-on-legacy", "`input_required` is the response to a legacy client.",
                 eras=("legacy",)),
    )
}  # fmt: skip
