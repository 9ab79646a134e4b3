"""Option L: `await ctx.elicit()` on a durable engine. The call lives in a database.

`rounds` turns requests into replies, `call` is one call and its handler's context, `events` and
`record` are the stored data. Two engines run and keep calls: `embedded` (DBOS) and `fleet`
(Temporal).
"""

from mrtr_options.sdk.durable.call import DurableContext
from mrtr_options.sdk.durable.store import DurableStore
from mrtr_options.sdk.handler import Call, CallAbandoned

__all__ = ["Call", "CallAbandoned", "DurableContext", "DurableStore"]
