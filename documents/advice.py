"""The advice to those who build an SDK and to those who write the specification, as data.

FOR_SDKS, FOR_THE_SPECIFICATION and the page show it. Each piece of advice has the command that
shows its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mrtr_options.terminal import markdown as table


@dataclass(frozen=True)
class Advice:
    """A piece of advice.

    Attributes:
        says: What to do.
        because: What the run shows.
        command: The command that shows it.
    """

    says: str
    because: str
    command: str


_PLAY = "python -m mrtr_options play"

FOR_SDKS: Sequence[Advice] = (
    Advice(
        "Let authors name the call by one of its arguments. Answer a second call from the record,"
        " and tell the client that it is a repeat.",
        "The client calls again. Keyed replay (J), guarded, charges twice. With the name it charges"
        " once, and the client gets the first result.",
        f"{_PLAY} J+guard default --faults lost3 --client calls-again",
    ),
    Advice(
        "Record the response to each round in a store that all instances share. Answer a repeated"
        " round from the record.",
        "A proxy delivers the last round twice. Once (F) charges twice; guarded, it charges once.",
        f"{_PLAY} F F+guard --faults twice3",
    ),
    Advice(
        "Give each effect the same idempotency key on every attempt.",
        "The process dies after the charge, and the destination honours keys. Keyed replay (J)"
        " charges once. Once (F) has no key for the destination, and charges twice.",
        f"{_PLAY} F J --faults crash@bill3 --client resends --destination honours-keys",
    ),
    Advice(
        "Have authors name their questions. Never match an answer to a question by position.",
        "A new version asks one more question. Keyed replay (J) asks it. Positional replay (M)"
        " takes an old answer for it, and charges.",
        f"{_PLAY} J M --faults redeploy3",
    ),
    Advice(
        "Put a digest of each question into the state. Ask again if the question changed.",
        "A new version words the question otherwise. MRTR-native (E) uses the old answer. Keyed"
        " replay (J) asks again.",
        f"{_PLAY} E J redeploy-reworded",
    ),
    Advice(
        "Take an answer only to a question that was asked.",
        "The first request answers both questions. MRTR-native (E) charges a user who was never"
        " asked for the units. Keyed replay (J) asks.",
        f"{_PLAY} E J --faults early1",
    ),
    Advice(
        "Sign or encrypt the state by default, and bind it to caller, tool, arguments and time.",
        "A state that is only encoded lets the client choose another place: the result is for it.",
        "python -m tests.mutants e_state_is_only_encoded",
    ),
    Advice(
        "Ship the shim for old clients as a wrapper around any handler.",
        "An old client of once (F) gets an error. With the shim it is asked, and logged once.",
        f"{_PLAY} F F+legacy-shim --era legacy",
    ),
    Advice(
        "Do not ship an `await` that starts the handler again and keeps no record of its effects.",
        "In a call without any fault, exception shim (B) logs three times. Continuation store (H),"
        " with the same handler, logs once.",
        f"{_PLAY} B H",
    ),
)

FOR_THE_SPECIFICATION: Sequence[Advice] = (
    Advice(
        "Say in one place what a client does after a lost response, for tools that must not be"
        " repeated.",
        "A client that sends the last round again, and a client that calls the tool again, both"
        " charge twice with MRTR-native (E).",
        f"{_PLAY} E --faults lost3 --client resends",
    ),
    Advice(
        "Say that a round may arrive twice, and that the server repeats its response or refuses.",
        "The last round arrives twice. Once (F) charges twice; guarded, it repeats its response.",
        f"{_PLAY} F F+guard --faults twice3",
    ),
    Advice(
        "Let the client name the call by a key in each of its requests.",
        "The client calls again. The guard alone charges twice. With the client's key it charges"
        " once, and no argument has to serve as a name.",
        f"{_PLAY} F+guard F+guard+call-key --faults lost3 --client calls-again",
    ),
    Advice(
        "Add no capability flag for a server's way of asking.",
        "All options show a client the same questions and results, so there is nothing to signal.",
        "pytest tests/test_invariant.py",
    ),
)


def table_of(advice: Sequence[Advice]) -> str:
    """Return advice as a table."""
    return table(
        ("advice", "what a run shows", "the run"),
        [(each.says, each.because, f"`{each.command}`") for each in advice],
    )
