"""What a green run does not check, and which schedule of the review does.

Names schedules by their slugs only; a test sees to it that there are such schedules.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Blind:
    """Something that can be wrong in a server that passes.

    Attributes:
        what: What is wrong.
        why: Why it does not see that: what the suite does.
        schedules: The slugs of those that do.
    """

    what: str
    why: str
    schedules: tuple[str, ...]


BLIND = (
    Blind(
        "the handler ignores the answers",
        "asks for a result, not for what is in it",
        ("clean-springfield", "bad-answer", "empty-answer"),
    ),
    Blind(
        "the state is plain text that anyone can write",
        "appends `-TAMPERED`, which any strict parser refuses",
        ("forged", "garbage", "truncated"),
    ),
    Blind(
        "a state is good for another call, another user, for ever",
        "sends every state back where it came from, at once",
        ("other-arguments", "other-principal", "expired"),
    ),
    Blind(
        "a no is taken for a yes, or asked again for ever",
        "accepts every question",
        ("decline", "decline-with-content", "cancel"),
    ),
    Blind(
        "effects happen twice",
        "delivers every round once and looks at no effect",
        ("lost-final", "duplicate-final", "concurrent-final"),
    ),
    Blind(
        "the call lives in one process",
        "talks to one server, which stays up",
        ("failover", "restart", "crash-after-effect"),
    ),
    Blind(
        "an answer goes to a question that was changed meanwhile",
        "talks to one version of the code",
        ("redeploy-reworded", "redeploy-schema"),
    ),
    Blind(
        "a client that cannot be asked gets a yes",
        "looks at the kinds that are asked, with one kind declared",
        ("no-elicitation-tokyo", "no-elicitation-springfield"),
    ),
)
