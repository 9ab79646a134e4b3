"""Option L: `await ctx.elicit()` on a durable engine. The call lives in a database.

`store` turns requests into replies, `position` is what a state says, `context` is one call and its
handler's context. `events` and `record` are the stored data, `sealing` writes them as text. Two
engines run and keep calls: `embedded` (DBOS) and `fleet` (Temporal); `engine` is their interface.
"""

from mrtr_options.sdk.durable.context import DurableContext
from mrtr_options.sdk.durable.store import DurableStore
from mrtr_options.sdk.handler import CallAbandoned, CallParams

__all__ = ["CallAbandoned", "CallParams", "DurableContext", "DurableStore"]
