"""The weather tool as one LangGraph node that calls `interrupt` for each question."""

import sys
from typing import Literal, TypedDict

import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

BY_ID = "id" in sys.argv
"""Answers name the interrupt that they are for."""
CHECKED = "schema" in sys.argv
"""Each interrupt names the answers that it accepts."""
IN_TASKS = "tasks" in sys.argv
"""Each effect is a task, whose result LangGraph keeps."""


def ask(question: dict) -> str:
    if not CHECKED:
        return interrupt(question)
    return interrupt(question, response_schema=Literal[*question["choices"]])


def do(effect, subject: str) -> None:
    if IN_TASKS:
        task(effect)(subject).result()
    else:
        effect(subject)


class State(TypedDict, total=False):
    location: str
    report: str


def weather(state: State) -> State:
    location = state["location"]
    do(tool.audit, location)
    names = tool.places(location)
    place = names[0] if len(names) == 1 else ask(tool.which_place(location))
    if tool.CONSENT and not ask(tool.may_bill(place)):
        return {"report": "No lookup was made."}
    units = ask(tool.which_units(place))
    do(tool.bill, place)
    return {"report": tool.report(place, units)}


def compiled(saver: SqliteSaver):
    builder = StateGraph(State)
    builder.add_node("weather", weather)
    builder.add_edge(START, "weather")
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
