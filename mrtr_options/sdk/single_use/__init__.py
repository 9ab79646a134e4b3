"""The single-use guard: request deduplication on the server, around any option.

`guard` is the wrapper, `sqlite` the store in a file, `postgres` the one for a fleet (extra
`durable`).
"""

from mrtr_options.sdk.single_use.guard import single_use
from mrtr_options.sdk.single_use.sqlite import SqliteStore

__all__ = ["SqliteStore", "single_use"]
