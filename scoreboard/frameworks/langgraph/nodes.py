"""The weather tool as a LangGraph graph with a node for each question and each effect."""

import itertools
import sys
from typing import TypedDict

import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

BY_ID = sys.argv[1:] == ["id"]
"""Answers name the interrupt that they are for."""


class State(TypedDict, total=False):
    location: str
    place: str
    units: str
    report: str


def log_lookup(state: State) -> State:
    tool.audit(state["location"])
    return {}


def ask_place(state: State) -> State:
    names = tool.places(state["location"])
    return {
        "place": names[0] if len(names) == 1 else interrupt(tool.which_place(state["location"]))
    }


def ask_consent(state: State) -> State:
    return {} if interrupt(tool.may_bill(state["place"])) else {"report": "No lookup was made."}


def ask_units(state: State) -> State:
    return {"units": interrupt(tool.which_units(state["place"]))}


def charge(state: State) -> State:
    tool.bill(state["place"])
    return {"report": tool.report(state["place"], state["units"])}


def compiled(saver: SqliteSaver):
    nodes = [log_lookup, ask_place, *([ask_consent] if tool.CONSENT else []), ask_units, charge]
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node)
    builder.add_edge(START, nodes[0].__name__)
    for node, following in itertools.pairwise(nodes):
        builder.add_edge(node.__name__, following.__name__)
    return builder.compile(checkpointer=saver)


def run(what, thread: str) -> dict:
    with SqliteSaver.from_conn_string(str(tool.STORE / "checkpoints.sqlite")) as saver:
        found = compiled(saver).invoke(what, {"configurable": {"thread_id": thread}})
    if "__interrupt__" in found:
        (pending,) = found["__interrupt__"]
        ids = {"interrupt": pending.id} if BY_ID else {}
        return tool.asked(pending.value, {"thread": thread} | ids)
    return tool.done(found["report"])


def read(call: str, pause: dict | None, user: str) -> dict:
    """Return the open question or the result that `get_state` shows of the thread."""
    with SqliteSaver.from_conn_string(str(tool.STORE / "checkpoints.sqlite")) as saver:
        state = compiled(saver).get_state({"configurable": {"thread_id": call}})
    if state.interrupts:
        return tool.asked(state.interrupts[0].value, {"thread": call})
    if state.next:
        return tool.parked(f"next is {', '.join(state.next)}")
    return tool.done(state.values["report"])


def start(call: str, location: str, user: str) -> dict:
    return run({"location": location}, call)


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    answer = {pause["interrupt"]: value} if BY_ID else value
    return run(Command(resume=answer), pause["thread"])


if __name__ == "__main__":
    tool.deliver(start, resume, read)
