"""Option H: `await ctx.elicit()` suspends the handler. Its frame waits in memory between rounds.

`continuations` takes the rounds, `frame` holds a parked call and its handler's context, `detached`
has the tasks and futures below anyio that calls park on.
"""

from mrtr_options.sdk.handler import CallAbandoned, CallParams
from mrtr_options.sdk.suspended.continuations import ContinuationStore
from mrtr_options.sdk.suspended.frame import LinearContext

__all__ = ["CallAbandoned", "CallParams", "ContinuationStore", "LinearContext"]
