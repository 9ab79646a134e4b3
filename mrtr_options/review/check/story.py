"""A breach as a story: who did what, what the contract allows there, and what came.

Knows breaches and how a run is told; nothing of how either was made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mrtr_options.review.bench.history import History, Received, Sent
from mrtr_options.review.bench.history.narrate import Row, line_of, narrate
from mrtr_options.review.bench.messages import JsonObject
from mrtr_options.review.check.breaches import Breach, sent_in, waiting_calls
from mrtr_options.review.judge.contract import RULES
from mrtr_options.terminal import plural

MOST_ROWS = 40
"""The number of rows up to which a run is told whole."""

MOST_LINES = 200
"""The most lines of a story; a longer story keeps its first and its last ones."""

MOST_NAMED = 5
"""The number of earlier runs with open calls that are named, the latest first."""

_NUMBER = re.compile(r"^( *)(\d+)\. ")
"""The number of a request, before it or before its response."""

MANY = 8
"""The number of requests, equal but for their numbers, above which they are told once."""

LONGEST_CYCLE = 4
"""The most lines between a line and its repetition for the two to be told as one."""


def breach_as_json(breach: Breach) -> JsonObject:
    """Return a breach as one JSON object."""
    history = breach.history
    problem = breach.problem
    return {
        "rule": breach.rule,
        "says": RULES[breach.rule].says,
        "source": RULES[breach.rule].source,
        "case": history.scenario.name,
        "era": history.era,
        "instances": history.scenario.instances,
        "allowed": problem.allowed,
        "came": problem.came,
        "story": story(breach),
    }


def story(breach: Breach) -> list[str]:
    """Tell the requests, the responses that the contract allows, and the actual response, by line.

    A run that could not be made small is told of one call, that of the request where it goes wrong,
    and of where its states come from.
    """
    problem = breach.problem
    rows = narrate(breach.history)
    sent = sent_in(breach)
    lines = _remarks(breach, rows)
    if sent is not None and len(rows) > MOST_ROWS:
        own = _shown_sendings(breach, rows, sent)
        shown = [row for row in rows if row.sending is None or row.sending in own]
        if shown != rows:
            lines.append(_hidden(breach.history, rows, own, sent))
        rows = shown
    told, verdict = _tell_run(breach, rows)
    lines += told
    return [
        *_shortened(_counted(lines)),
        f"   allowed: {problem.allowed}",
        f"   came: {problem.came}",
        *verdict,
    ]


def _remarks(breach: Breach, rows: Sequence[Row]) -> list[str]:
    """Return the remarks that a reader needs besides the requests."""
    lines: list[str] = []
    if breach.set_up is None:
        lines.append("   (not tried on a fresh server: this may depend on earlier requests)")
    if breach.set_up:
        lines.append("   (a fresh server does not show this: it depends on earlier requests)")
        lines += _left_open(breach)
    if breach.history.instances > 1 and len({row.end for row in rows if _is_request(row)}) == 1:
        lines.append("   (two instances run; the other one gets no request here)")
    if not any(row.kind == "failure" for row in rows):  # the server has hidden it
        kinds = breach.history.scenario.at_effects
        lines += [f"   {each}" for each in dict.fromkeys(kind.says for kind in kinds)]
    return lines


def _left_open(breach: Breach) -> list[str]:
    """Return the line that names the earlier runs with calls that are still open."""
    if not breach.open_before:
        return []
    latest = breach.open_before[-MOST_NAMED:]
    named = [f"{count} of {name}" for name, count in reversed(latest)]
    hidden = len(breach.open_before) - len(latest)
    more = [f"those of {plural(hidden, 'other run')}"] if hidden else []
    return [f"   (earlier calls that are still open: {', '.join([*named, *more])})"]


def _is_request(row: Row) -> bool:
    return row.kind == "request"


def _shown_sendings(breach: Breach, rows: Sequence[Row], sent: Sent) -> set[int]:
    """Return the sendings that are told of a long run.

    They are those of the call, and the sendings at work at the same time if they are few.
    """
    own = _sendings_of(breach.history, sent.call) | {sent.sending}
    beside = _beside(breach, rows) - own
    together = [row for row in rows if row.sending in beside | own]
    return own | beside if len(together) <= MOST_ROWS else own


def _beside(breach: Breach, rows: Sequence[Row]) -> set[int]:
    """Return the sendings with a row between the request where it goes wrong and its response."""
    at = [at for at, row in enumerate(rows) if row.exchange == breach.problem.exchange]
    between = rows[at[0] : at[-1]]
    return {row.sending for row in between if row.exchange and row.sending}


def _sendings_of(history: History, call: int) -> set[int]:
    """Return a call's sendings without forged ones, and those that handed out its states."""
    sendings: set[int] = set()
    states: set[str] = set()
    for sent, got in reversed(history.exchanges):
        is_own = sent.call == call and sent.request.forged is None
        if is_own or got.reply.state in states:
            sendings.add(sent.sending)
            if sent.request.state is not None:
                states.add(sent.request.state)
    return sendings


def _hidden(history: History, rows: Sequence[Row], own: set[int], sent: Sent) -> str:
    """Return the line that says what is not shown: requests, and calls that were open."""
    others = [row for row in rows if _is_request(row) and row.sending not in own]
    are = "is" if len(others) == 1 else "are"
    hidden = f"{plural(len(others), 'other request')} {are} not shown"
    at_once = len({row.sending for row in others} & _at_work(history, sent))
    if at_once:
        hidden += f", {at_once} of them at the same time"
    open_calls = len(waiting_calls(history, sent) - {sent.call})
    if open_calls:
        hidden += f"; {plural(open_calls, 'other call')} waited for an answer"
    return f"   ({hidden})"


def _at_work(history: History, until: Sent) -> set[int]:
    """Return the sendings that had no response yet when a request was sent."""
    found: set[int] = set()
    for event in history.events:
        if event is until:
            break
        if isinstance(event, Sent):
            found.add(event.sending)
        elif isinstance(event, Received):
            found.discard(event.sending)
    return found


def _tell_run(breach: Breach, rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return the lines of a run up to where it goes wrong, and what else came there."""
    lines: list[str] = []
    latest = 0
    kinds = breach.history.scenario.at_effects
    for_a_moment = {f"the {kind.at} fails": kind.says for kind in kinds if not kind.lasts}
    for row in rows:
        line = line_of(replace(row, text=for_a_moment.get(row.text, row.text)))
        if row.kind == "request":
            latest = row.number
            line = f"{line}{_where(breach.history, row)}"
        elif row.kind == "response":
            if row.exchange == breach.problem.exchange:
                return lines, [f"   {each}" for each in row.wire[1:]]
            if row.number != latest:
                line = f"   {row.number}. {(line or '').lstrip()}"
        if line is not None:
            lines.append(line)
    return lines, []


def _where(history: History, row: Row) -> str:
    """Return the instance of a request, where there are two."""
    is_known = history.instances > 1 and isinstance(row.end, int)
    return f" (instance {int(row.end or 0) + 1})" if is_known else ""


def _counted(lines: Sequence[str]) -> list[str]:
    """Tell lines that repeat, alone or a few in turn, once, with the number of repetitions.

    Many requests that differ in their numbers alone are told once, too.
    """
    found: list[str] = []
    unnumbered = [*map(_unnumbered, lines)]
    at = 0
    while at < len(lines):
        size, times = _cycle_at(lines, at)
        if times == 1:
            longer, more = _cycle_at(unnumbered, at)
            if more > MANY:
                size = longer
                times = more
        cycle = lines[at : at + size]
        if times > 1 and size == 1:
            found.append(f"{cycle[0]} ({times} times)")
        elif times > 1:
            found += [*cycle, f"   (these {size} lines {times:,} times)"]
        else:
            found += cycle
        at += size * times
    return found


def _unnumbered(line: str) -> str:
    """Return a line without its request's number and the number of the request before it."""
    found = _NUMBER.match(line)
    if found is None:
        return line
    before = rf"the state of {int(found[2]) - 1}\b"
    return found[1] + re.sub(before, "the state before", line[found.end() :])


def _cycle_at(lines: Sequence[str], at: int) -> tuple[int, int]:
    """Return how many lines repeat from a place on, and how many times they come in a row."""
    for size in range(1, LONGEST_CYCLE + 1):
        cycle = lines[at : at + size]
        times = 1
        while lines[at + times * size : at + (times + 1) * size] == cycle:
            times += 1
        if times > 1 and (size == 1 or times > 2):
            return size, times
    return 1, 1


def _shortened(lines: list[str]) -> list[str]:
    """Leave out the middle of a story that is too long to read."""
    if len(lines) <= MOST_LINES:
        return lines
    half = MOST_LINES // 2
    left_out = len(lines) - 2 * half
    return [*lines[:half], f"   ({left_out:,} lines are left out)", *lines[-half:]]
