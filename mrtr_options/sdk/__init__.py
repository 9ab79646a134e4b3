"""What an SDK would have to ship for tools that ask their user: every name that a server's author needs.

Since MCP 2026-07-28 a tool cannot wait for its user. It returns a question, and the answer arrives as a
new request, perhaps at another instance or for a second time. These are ways to write such a tool, and
what to put around it so that nothing happens twice. docs/USING.md builds a server with them.

Serve        Tool, build_server, serve, protect, Settings, arguments_of, text, outcome_of
Ask          Question (a form), sampling, roots, link; Declined, Cancelled, CannotAsk, BadAnswer
By hand      ask, answer_to, load_state: the rounds as they are
once         Markers: the rounds by hand, and each effect marked as done in the state
steps        ToolBuilder: a function for each question, and one for the effects
replay       keyed_replay: `await ctx.elicit(...)` by running again; a key for each effect
continue     ContinuationStore: `await ctx.elicit(...)` by waiting in this process
durable      DurableStore: the same in a database; TaskStore: and the client gets a handle at once
single_use   single_use with SqliteStore or PostgresStore: no round runs twice
call key     CALL_KEY, new_call_key: the client says which requests are one call
legacy_shim  asks 2025-11-25 clients, too
ask_again    asks again where an answer does not fit
Client       ResumingClient, CallFolder, Unanswered: resends what was lost

The names of `durable`, and PostgresStore, need the extra `durable`. Knows `mcp` only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mrtr_options.sdk.ask_again import ask_again
from mrtr_options.sdk.call_key import CALL_KEY, new_call_key
from mrtr_options.sdk.handlers import Context, Handler, NotAHandler, Params, Result
from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.sdk.once import Markers
from mrtr_options.sdk.questions import (
    BadAnswer,
    Cancelled,
    CannotAsk,
    Declined,
    Inquiry,
    Question,
    answer_to,
    ask,
    link,
    load_state,
    roots,
    sampling,
)
from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.sdk.resuming import CallFolder, ResumingClient, Unanswered
from mrtr_options.sdk.server import Tool, arguments_of, build_server, outcome_of, protect, text
from mrtr_options.sdk.serving import serve
from mrtr_options.sdk.settings import Settings
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.sdk.suspended import Call, ContinuationStore, LinearContext
from mrtr_options.sdk.telemetry import log_to_standard_error
from mrtr_options.sdk.tool_builder import ToolBuilder, Values

if TYPE_CHECKING:
    from mrtr_options.sdk.durable import DurableContext, DurableStore
    from mrtr_options.sdk.single_use.postgres import PostgresStore
    from mrtr_options.sdk.tasks import TaskContext, TaskStore

__all__ = [
    "CALL_KEY",
    "BadAnswer",
    "Call",
    "CallFolder",
    "Cancelled",
    "CannotAsk",
    "Context",
    "ContinuationStore",
    "Declined",
    "DurableContext",
    "DurableStore",
    "Handler",
    "Inquiry",
    "LinearContext",
    "Markers",
    "NotAHandler",
    "Params",
    "PostgresStore",
    "Question",
    "ReplayContext",
    "Result",
    "ResumingClient",
    "Settings",
    "SqliteStore",
    "TaskContext",
    "TaskStore",
    "Tool",
    "ToolBuilder",
    "Unanswered",
    "Values",
    "answer_to",
    "arguments_of",
    "ask",
    "ask_again",
    "build_server",
    "keyed_replay",
    "legacy_shim",
    "link",
    "load_state",
    "log_to_standard_error",
    "new_call_key",
    "outcome_of",
    "protect",
    "roots",
    "sampling",
    "serve",
    "single_use",
    "text",
]

_WITH_EXTRA = {
    "DurableContext": "durable",
    "DurableStore": "durable",
    "PostgresStore": "single_use.postgres",
    "TaskContext": "tasks",
    "TaskStore": "tasks",
}
"""Where the names are that need an extra: imported when they are asked for."""


def __getattr__(name: str) -> Any:
    if name not in _WITH_EXTRA:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WITH_EXTRA[name]}"), name)
