"""The single-use guard: request deduplication on the server, round any option.

`guard` is the wrapper, `store` the SQLite store, `postgres` the one for a fleet (extra `durable`).
"""

from mrtr_options.sdk.questions import MAX_STATE_BYTES
from mrtr_options.sdk.single_use.guard import MAX_RESPONSE_BYTES, single_use
from mrtr_options.sdk.single_use.store import (
    Abandoned,
    Claim,
    Forgotten,
    Full,
    Pending,
    Spent,
    SqliteStore,
    Store,
    Unusable,
)

__all__ = [
    "MAX_RESPONSE_BYTES",
    "MAX_STATE_BYTES",
    "Abandoned",
    "Claim",
    "Forgotten",
    "Full",
    "Pending",
    "Spent",
    "SqliteStore",
    "Store",
    "Unusable",
    "single_use",
]
