"""Option L: `await ctx.elicit()` on a durable engine. The call lives in a database, not in a process.

`store` runs the rounds, `context` is what the handler sees, `messages` is what is recorded, `engine` is
DBOS in this process and `liveness` says which processes of a fleet are alive. Needs the extra `durable`.
"""

from mrtr_options.sdk.durable.context import CallAbandoned, DurableContext
from mrtr_options.sdk.durable.engine import Engine, WrongDatabase
from mrtr_options.sdk.durable.messages import Call
from mrtr_options.sdk.durable.store import DurableStore

__all__ = ["Call", "CallAbandoned", "DurableContext", "DurableStore", "Engine", "WrongDatabase"]
