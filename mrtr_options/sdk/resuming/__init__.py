"""The client's half: a call that goes on when a response is lost, or its client has died.

`client` sends rounds again, asks the user and knows when to stop; `connection` replaces a
connection that broke; `kept` is what is kept of a call that has not ended. Works round the SDK's
own client.
"""

from mrtr_options.sdk.resuming.client import ResumingClient, Unanswered
from mrtr_options.sdk.resuming.kept import CallFolder

__all__ = ["CallFolder", "ResumingClient", "Unanswered"]
