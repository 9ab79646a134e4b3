"""Option H: `await ctx.elicit()` is a suspension. The handler's frame waits in memory between
rounds.

`store` takes the rounds, `frame` is a parked call and what its handler sees, `detached` is what it
parks on.
"""

from mrtr_options.sdk.handlers import Call, CallAbandoned
from mrtr_options.sdk.suspended.frame import LinearContext
from mrtr_options.sdk.suspended.store import ContinuationStore

__all__ = ["Call", "CallAbandoned", "ContinuationStore", "LinearContext"]
