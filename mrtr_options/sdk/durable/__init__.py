"""Option L: `await ctx.elicit()` on a durable engine. The call lives in a database, not in a
process.

`rounds` is what a request brings and gets, `call` is one call and what its handler sees, `messages`
is what is recorded. Two engines run and keep calls: `embedded` (DBOS) and `fleet` (Temporal).
"""

from mrtr_options.sdk.durable.call import DurableContext
from mrtr_options.sdk.durable.rounds import DurableStore
from mrtr_options.sdk.handlers import Call, CallAbandoned

__all__ = ["Call", "CallAbandoned", "DurableContext", "DurableStore"]
