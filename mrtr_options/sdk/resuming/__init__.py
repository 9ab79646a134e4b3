"""The client's half: a call that goes on when a response is lost, or its client has died.

`client` keeps a call going and asks the user; `delivery` sends one round until it is answered, and
knows when to stop; `connection` replaces a connection that broke; `asking` is the user's part;
`open_calls` stores a call that has not ended; `errors` are the ends without a result. Works
round the SDK's own client.
"""

from mrtr_options.sdk.resuming.asking import QuestionContext
from mrtr_options.sdk.resuming.client import ResumingClient
from mrtr_options.sdk.resuming.errors import StateRefused, Unanswered
from mrtr_options.sdk.resuming.open_calls import CallFolder

__all__ = ["CallFolder", "QuestionContext", "ResumingClient", "StateRefused", "Unanswered"]
