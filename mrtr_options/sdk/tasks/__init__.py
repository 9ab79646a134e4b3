"""Option K: a durable call as a task of the client's (SEP-2663, final).

`store` is the server's side, `context` is what the handler sees, `records` and `requests` serve the
store, `wire` is what travels and `client` finishes a task behind `client.call_tool`. The server's side
needs the extra `durable`; `wire` and `client` do not, so what needs it is imported when it is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrtr_options.sdk.durable import Call
    from mrtr_options.sdk.tasks.context import TaskContext
    from mrtr_options.sdk.tasks.store import TaskHandler, TaskStore

__all__ = ["Call", "TaskContext", "TaskHandler", "TaskStore"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mrtr_options.sdk.durable import Call  # first: it names the extra where that is missing
    from mrtr_options.sdk.tasks import store

    return Call if name == "Call" else getattr(store, name)
