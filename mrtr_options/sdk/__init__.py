"""All names that an author needs to write a tool that asks its user.

Since MCP 2026-07-28 a tool cannot wait for its user. It returns a question, and the answer arrives
as a new request, perhaps at another instance or for a second time. These are ways to write such a
tool, and what to put around it so that nothing happens twice. docs/USING.md builds a server with
them; `help(sdk.NAME)` and docs/results/API.md say more of each.

Serve:
    Tool                   a tool that may ask: its name, arguments, handler and wrappers
    build_server           a server for tools, which protects the state of their calls
    serve                  serve over HTTP until Ctrl-C
    protect                have a server of your own protect the state of its calls
    Settings               the keys, database and name of one instance, for those of the environment
    arguments_of           the arguments of a call, as their model has them
    text                   a result of one text
    outcome_of             what a declined, cancelled or impossible question is as a result
    log_to_standard_error  a line for each round
    Context                what a handler is given first: the request, the server's lifespan context
    Params                 what it is given second: the arguments, the answers, the state
    Result                 what it returns: a result, or questions
    Handler                a function of these three
    NotAHandler            raised where something else is given for one

Have each call done once, in one object (the default):
    Calls                  seals, guards and names the calls of tools, and asks old clients
    Call                   what its tools are given: `confirm`, `elicit`, `once`, `memo`

Ask:
    Question               a form, with a key of your own
    sampling               a message from the client's model
    roots                  the client's folders
    link                   an address to visit
    Inquiry                what the last three make
    Declined               raised where the user says no
    Cancelled              raised where the user dismisses the question
    CannotAsk              raised where the client cannot be asked, and nothing is assumed
    NotDone                raise it to end a call that did nothing: its name is free again
    Unknown                raise it where nobody knows: the next call tries again
    NotInTime              raised where `ctx.until(...)` of H, K and L waits in vain
    BadAnswer              raised where an answer does not fit: -32602

A round at a time (options E and F):
    ask                    end the round with a question and a state
    answer_to              the answer that this round brings, or None
    load_state             the state that an earlier round handed out, or a new one
    Markers                a state with `once(key, effect)`, which skips an effect that has run

A function for each question (G):
    ToolBuilder            makes a handler of them, and of one for the effects
    Values                 what each is given third: the answers so far

Awaiting the answers (J, H, L, K):
    keyed_replay           J: the handler runs again in each round; answers and effects have keys
    ReplayContext          its context: `elicit`, `once`, `memo`, `on_commit`
    ContinuationStore      H: the handler waits in this process
    LinearContext          its context: `elicit`, `once`
    DurableStore           L: the handler goes on from a database, also after a crash
    DurableContext         its context: `elicit`, `step`
    TaskStore              K: the same, and the client gets a task at once
    TaskContext            its context: `elicit`, `step`, `status`, `become_task`
    CallParams             what H, L and K are given for Params: the name and the arguments

Wrap:
    subject_of             who calls, by issuer and subject: for names of calls
    single_use             no round runs twice; what is sent again gets the recorded response
    SqliteStore            its records, for the processes of one machine
    PostgresStore          its records, for several
    ask_again              ask again where an answer does not fit
    legacy_shim            ask 2025-11-25 clients, too

Call a tool:
    ResumingClient         a client that sends again what was lost
    CallFolder             where it keeps open calls, for a process that may die
    Unanswered             raised where no response came
    CALL_KEY               where a request says which call it belongs to
    new_call_key           a key for one call

A name is imported when it is first used. The stores of L and K, their contexts and PostgresStore
need the extra `durable`. Knows `mcp` only.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

# For type checkers; the same names as in the table below. `__all__` would have help() print each in
# full.
# isort: off
if TYPE_CHECKING:
    from mrtr_options.sdk.ask_again import ask_again as ask_again
    from mrtr_options.sdk.call_key import (
        CALL_KEY as CALL_KEY,
        new_call_key as new_call_key,
        subject_of as subject_of,
    )
    from mrtr_options.sdk.calls import Call as Call, Calls as Calls
    from mrtr_options.sdk.effects import NotDone as NotDone, Unknown as Unknown
    from mrtr_options.sdk.handler import (
        Context as Context,
        Handler as Handler,
        NotAHandler as NotAHandler,
        Params as Params,
        Result as Result,
    )
    from mrtr_options.sdk.legacy_shim import legacy_shim as legacy_shim
    from mrtr_options.sdk.once import Markers as Markers
    from mrtr_options.sdk.questions import (
        BadAnswer as BadAnswer,
        Cancelled as Cancelled,
        CannotAsk as CannotAsk,
        Declined as Declined,
        Inquiry as Inquiry,
        Question as Question,
        answer_to as answer_to,
        ask as ask,
        link as link,
        load_state as load_state,
        roots as roots,
        sampling as sampling,
    )
    from mrtr_options.sdk.replay import ReplayContext as ReplayContext, keyed_replay as keyed_replay
    from mrtr_options.sdk.resuming import (
        CallFolder as CallFolder,
        ResumingClient as ResumingClient,
        Unanswered as Unanswered,
    )
    from mrtr_options.sdk.server import (
        Tool as Tool,
        arguments_of as arguments_of,
        build_server as build_server,
        outcome_of as outcome_of,
        protect as protect,
        text as text,
    )
    from mrtr_options.sdk.serving import serve as serve
    from mrtr_options.sdk.settings import Settings as Settings
    from mrtr_options.sdk.single_use import SqliteStore as SqliteStore, single_use as single_use
    from mrtr_options.sdk.suspended import (
        CallParams as CallParams,
        ContinuationStore as ContinuationStore,
        LinearContext as LinearContext,
    )
    from mrtr_options.sdk.telemetry import log_to_standard_error as log_to_standard_error
    from mrtr_options.sdk.tool_builder import ToolBuilder as ToolBuilder, Values as Values
    from mrtr_options.sdk.durable import (
        DurableContext as DurableContext,
        DurableStore as DurableStore,
    )
    from mrtr_options.sdk.single_use.postgres import PostgresStore as PostgresStore
    from mrtr_options.sdk.tasks import TaskContext as TaskContext, TaskStore as TaskStore
    from mrtr_options.sdk.waiting import NotInTime as NotInTime
# isort: on

NAMES = {
    "answer_to": "questions",
    "arguments_of": "server",
    "ask": "questions",
    "ask_again": "ask_again",
    "BadAnswer": "questions",
    "build_server": "server",
    "Call": "calls",
    "CALL_KEY": "call_key",
    "CallFolder": "resuming",
    "CallParams": "suspended",
    "Calls": "calls",
    "Cancelled": "questions",
    "CannotAsk": "questions",
    "Context": "handler",
    "ContinuationStore": "suspended",
    "Declined": "questions",
    "DurableContext": "durable",
    "DurableStore": "durable",
    "Handler": "handler",
    "Inquiry": "questions",
    "keyed_replay": "replay",
    "legacy_shim": "legacy_shim",
    "LinearContext": "suspended",
    "link": "questions",
    "load_state": "questions",
    "log_to_standard_error": "telemetry",
    "Markers": "once",
    "new_call_key": "call_key",
    "NotAHandler": "handler",
    "NotDone": "effects",
    "NotInTime": "waiting",
    "outcome_of": "server",
    "Params": "handler",
    "PostgresStore": "single_use.postgres",
    "protect": "server",
    "Question": "questions",
    "ReplayContext": "replay",
    "Result": "handler",
    "ResumingClient": "resuming",
    "roots": "questions",
    "sampling": "questions",
    "serve": "serving",
    "Settings": "settings",
    "single_use": "single_use",
    "SqliteStore": "single_use",
    "subject_of": "call_key",
    "TaskContext": "tasks",
    "TaskStore": "tasks",
    "text": "server",
    "Tool": "server",
    "ToolBuilder": "tool_builder",
    "Unanswered": "resuming",
    "Unknown": "effects",
    "Values": "tool_builder",
}
"""The module of each name."""

_WITH_EXTRA = {"durable", "single_use.postgres", "tasks"}
"""Modules that need an extra. `dir` leaves their names out, so that help() works without it."""


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    listed = [name for name, module in NAMES.items() if module not in _WITH_EXTRA]
    return sorted({*globals(), *listed})


class _Face(ModuleType):
    """This module's class: three of its names are also names of submodules.

    The import system sets a submodule as an attribute of its package. Here it leaves such a name to
    `__getattr__`: `sdk.single_use` is the function, whoever imported the module first.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in NAMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
