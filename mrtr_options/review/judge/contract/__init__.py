"""The contract as a specification that runs: what docs/CONTRACT.md allows, held against a history.

How one request is judged
-------------------------
`violations` takes a history and returns the places where it breaks a rule. Nothing here knows how a
server works. Each request is judged by what any onlooker knows when it is sent: its content, its
state, the response that handed that state out, and what happened to the servers since then.

1. `exchanges` reads the history from its first event to its last and makes an `Exchange` of each
   request. It notes the time, the instance, and the state, if that was handed out before. The
   state's response tells the position of the call: which question is open, and which place is
   settled. It also notes which requests were open when an effect failed or an instance died.
2. `allowed.rule_on` computes the responses that the page allows to the request, and the rule that
   says so. It does not look at the response that came. Where the page leaves a choice, each choice
   is in the list, so any correct server passes.
3. `responses` compares the response with that list. If it fits none of them, the rule is broken. It
   also compares responses with each other: a repeated request gets the same response, and a
   question keeps its form.
4. `effects` counts. Each allowed report gives its request a slot for one bill, and each request
   with good arguments has a slot for an audit. An effect that finds no free slot is one too many. A
   report without a bill, or without an audit before the bill, lacks one.
5. `leaks` searches the texts and states that a client received for traces, keys and other users'
   words.

Histories of servers whose code changes on the way are outside the contract. Tasks have rules of
their own (`task_rules`).

An example: option E loses the third response (`lost3`), and the client sends request 3 again. The
state of request 3 was handed out with the question about the units for Springfield, Illinois, so
this question is open and that place is settled. The answer "metric" fits. The one allowed response
is therefore the report of Springfield, Illinois, and it came, although the client never saw it.
Request 4 has the same state and the same answer. It may get the same report, or an error, since a
server may take a state only once. E reports again and bills again. There are two deliveries, so
there are two slots for bills, and the contract is kept. That the user pays twice is no breach of a
rule but an anomaly: "charged twice" (`judge.anomalies`).

The other modules: `rules` has the rules by name, `content` reads what a client sends, and `kinds`
has the kinds of response.
"""

from __future__ import annotations

from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.messages import Tools
from mrtr_options.review.judge.contract.effects import find_wrong_effects
from mrtr_options.review.judge.contract.exchanges import Calls
from mrtr_options.review.judge.contract.leaks import find_leaks
from mrtr_options.review.judge.contract.responses import find_wrong_responses
from mrtr_options.review.judge.contract.rules import RULES
from mrtr_options.review.judge.contract.task_rules import find_wrong_tasks, has_tasks
from mrtr_options.review.judge.properties import Problem

__all__ = ["RULES", "violations"]


def violations(history: History, *, tools: Tools | None = None) -> list[Problem]:
    """Return the breaches of the contract in a history, in its order.

    Args:
        history: A history of any server of the weather tool. There are no breaches if its code is
            changed on the way. A task is held against the extension's rules and the page's
            questions and reports.
        tools: The server's listing, if it was read in another run.

    Source: docs/CONTRACT.md.
    """
    if history.scenario.changes:
        return []
    if has_tasks(history):
        return find_wrong_tasks(history)
    if history.scenario.takes_tasks:
        return []
    calls = Calls(history)
    found = [
        *calls.deaths,
        *find_wrong_responses(calls, tools or {}),
        *find_wrong_effects(calls),
        *find_leaks(calls),
    ]
    order = {name: number for number, name in enumerate(RULES)}
    # A problem of no request comes last.
    return sorted(
        found,
        key=lambda each: (each.exchange is None, each.exchange or 0, order[each.property]),
    )
