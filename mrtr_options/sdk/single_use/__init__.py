"""The single-use guard: request deduplication on the server, round any option.

`guard` is the wrapper, `store` the SQLite store, `postgres` the one for a fleet (extra `durable`).
"""

from mrtr_options.sdk.single_use.guard import single_use
from mrtr_options.sdk.single_use.store import SqliteStore

__all__ = ["SqliteStore", "single_use"]
