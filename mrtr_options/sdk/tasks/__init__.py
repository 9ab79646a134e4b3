"""Option K: a durable call as a task of the client's (SEP-2663, final).

`store` is the server's side, `context` is what the handler sees, `requests` has the checks of a request,
and `wire` is what travels.
"""

from mrtr_options.sdk.durable import Call
from mrtr_options.sdk.tasks.context import TaskContext
from mrtr_options.sdk.tasks.store import TaskHandler, TaskStore

__all__ = ["Call", "TaskContext", "TaskHandler", "TaskStore"]
