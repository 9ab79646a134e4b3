"""What an option promises, as data that stands beside its code.

Knows nobody. The option's own demo, the tests, the tour and the review hold what they see against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Survivable = Literal["hop", "restart"]
Delivery = Literal[
    "lost-first",
    "lost-interim",
    "lost-final",
    "duplicate-interim",
    "duplicate-final",
    "concurrent-final",
]
"""The schedules of the review in which a response is lost or a request arrives twice."""

EVERY_DELIVERY: tuple[Delivery, ...] = (
    "lost-first",
    "lost-interim",
    "lost-final",
    "duplicate-interim",
    "duplicate-final",
    "concurrent-final",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What one option promises.

    The first four say how often each effect happens in one clean call ("audit/bill").

    Attributes:
        modern_tokyo: One question (units).
        modern_springfield: Two questions, the second depends on the first (place, units).
        legacy_tokyo: As modern, or with the units assumed where an old client cannot be asked.
        legacy_springfield: As modern, or an error that tells the caller to name the place.
        asks_legacy: Whether an old client is asked.
        reentry: Whether the author's code runs again after a question, and whether its source shows
            it: by guards ("visible"), or not ("hidden").
        survives: What a modern call survives between two rounds: another instance, a restart. With
            neither, the call lives in the server's memory.
        audit_once: The deliveries under which the effect above the questions happens once.
        bill_once: The deliveries under which the effect below the questions happens once.
        readable: Whether the client can read the state.
        task: Whether a client that takes tasks is given one.
        departs: The contract's promises that the option does not keep, by their names in the review,
            said openly. Each must be seen to be broken.
    """

    modern_tokyo: str
    modern_springfield: str
    legacy_tokyo: str
    legacy_springfield: str
    asks_legacy: bool
    reentry: Literal["never", "visible", "hidden"]
    survives: tuple[Survivable, ...]
    audit_once: tuple[Delivery, ...]
    bill_once: tuple[Delivery, ...]
    readable: bool
    task: bool = False
    departs: tuple[str, ...] = ()
