"""What an option promises, as data that stands beside its code.

Knows nobody. The option's own demo, the tests and the tour hold what they see against it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """How often each effect happens in one clean call ("audit/bill"), by era and location.

    Attributes:
        modern_tokyo: One question (units).
        modern_springfield: Two questions, the second depends on the first (place, units).
        legacy_tokyo: As modern, or with the units assumed where an old client cannot be asked.
        legacy_springfield: As modern, or an error that tells the caller to name the place.
        asks_legacy: Whether an old client is asked.
    """

    modern_tokyo: str
    modern_springfield: str
    legacy_tokyo: str
    legacy_springfield: str
    asks_legacy: bool
