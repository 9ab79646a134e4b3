"""Option K: a durable call as a task of the client's (SEP-2663, final).

`extension` is the server's side with what the handler sees, and `wire` is what travels.
"""

from mrtr_options.sdk.durable import CallParams
from mrtr_options.sdk.tasks.extension import TaskContext, TaskHandler, TaskStore

__all__ = ["CallParams", "TaskContext", "TaskHandler", "TaskStore"]
