"""A run as text, line by line as it happens, and how it ended.

Knows events, anomalies and the terminal.
"""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
from rich.console import Console
from rich.text import Text

from mrtr_options.bench.history import (
    UNREADABLE,
    Answered,
    Asked,
    Crashed,
    Effect,
    Elapsed,
    Entered,
    Event,
    Failed,
    History,
    Received,
    Redeployed,
    Reply,
    Request,
    Restarted,
    Sent,
    readable_state,
)
from mrtr_options.bench.observations import observe
from mrtr_options.judge import anomalies
from mrtr_options.show.terminal import counts
from mrtr_options.tool.server import TOOL

_INDENT = 15
"""Where a line goes on that is too wide."""


class Transcript:
    """Prints the events of a run as they happen. Looks at a task show when something has changed.

    Args:
        out: Where to.
    """

    def __init__(self, out: Console) -> None:
        self._out = out
        self._stood: tuple[str | None, str | None] | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case Sent(request=Request(method="tasks/get")):
                pass
            case Sent(round=number, request=request):
                self._sent(number, request)
            case Effect(effect=effect):
                key = "" if effect.key is None else f" (idempotency key {effect.key!r})"
                self._line("effect", f"   {effect.kind} {effect.subject!r}{key}", "yellow")
            case Asked(message=message):
                self._line("question", f"   {message}", "green")
            case Answered(action=action, content=content):
                said = "" if content is None else f" {json.dumps(content)}"
                self._line("answer", f"   {action}{said}", "green")
            case Received(reply=reply, lost=lost):
                self._received(reply, lost=lost)
            case Failed(kind=kind):
                self._line("fault", f"   the {kind} fails", "red")
            case Crashed(instance=instance):
                self._line("fault", f"   instance {instance + 1} dies, another takes its place", "red")
            case Restarted():
                self._line("fault", "   every instance is replaced", "red")
            case Redeployed(change=change):
                self._line(
                    "fault", f"   another version is deployed: {change or 'the one before'}", "red"
                )
            case Elapsed(seconds=seconds):
                self._line("time", f"   {seconds:g} s pass")
            case Entered():
                pass

    def _sent(self, number: int, request: Request) -> None:
        what = request.method
        if what == "tools/call":
            what = f"{TOOL}(location={request.location!r})"
        self._line(f"round {number}", f"-> {what}", "bold")
        if request.answers:
            answers = {key: _shown(given) for key, given in request.answers.items()}
            self._line("", f"   answers {json.dumps(answers)}", shorten=True)
        if request.state is not None:
            readable = readable_state(request.state)
            content = "sealed" if readable is None else f"signed, reads {readable}"
            if readable == UNREADABLE:
                content = UNREADABLE
            self._line("", f"   state of {len(request.state)} bytes, {content}", shorten=True)

    def _received(self, reply: Reply, *, lost: bool) -> None:
        stands = reply.status, reply.status_message
        if reply.status is not None and stands != self._stood:
            said = f": {reply.status_message}" if reply.status_message else ""
            self._line("task", f"   {reply.status}{said}", "magenta")
            self._stood = stands
        if reply.nothing is not None:
            self._line("", f"<- nothing ({reply.nothing})", "bold")
            return
        arrow = "<- (does not arrive)" if lost else "<-"
        if reply.code is not None:
            self._line("", f"{arrow} error {reply.code}: {reply.message}", "bold")
        elif reply.text is not None:
            self._line("", f"{arrow} {'error' if reply.is_error else 'result'}: {reply.text}", "bold")
        elif reply.questions and reply.status is None:
            self._line("", f"{arrow} input required: {', '.join(reply.questions)}", "bold")

    def _line(self, label: str, text: str, style: str = "", *, shorten: bool = False) -> None:
        says, width = Text(text, style), self._out.width - _INDENT
        if shorten:
            says.truncate(width, overflow="ellipsis")
        for number, line in enumerate(says.wrap(self._out, width)):
            begins = f"  {label:<9} " if number == 0 else " " * _INDENT
            line.rstrip()
            self._out.print(Text(begins).append_text(line))


def end_of(history: History) -> Text:
    """How a call ended, its counts, and what is wrong with it, in a line."""
    seen = observe(history)
    found = ", ".join(each.name for each in anomalies.ANOMALIES if each.shows(history))
    return Text.assemble(
        f"  the call ended as {seen.outcome.replace('_', ' ')}, audit/bill ",
        counts(seen.most("audit"), seen.most("bill")),
        ": ",
        (found or "no anomaly", "bold red" if found else "green"),
    )


def _shown(response: types.InputResponse) -> dict[str, Any]:
    return response.model_dump(by_alias=True, mode="json", exclude_none=True)
