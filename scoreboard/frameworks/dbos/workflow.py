"""The weather tool as a DBOS workflow that waits for a message at each question."""

import os
import sys
import time

import tool
from dbos import DBOS, SetWorkflowID

TOPICS = sys.argv[1] == "topics"
"""Whether each question has a topic of its own."""
WAIT_SECONDS = 20.0


@DBOS.step()
def log_lookup(location: str) -> None:
    tool.audit(location)


@DBOS.step()
def charge(place: str) -> None:
    tool.bill(place)


def ask(number: int, question: dict) -> str:
    topic = question["key"] if TOPICS else None
    said = DBOS.recv(topic, timeout_seconds=0)
    if said is None:  # what was answered early is not asked
        DBOS.set_event("question", question | {"number": number})
        said = DBOS.recv(topic, timeout_seconds=86400)
    return said


@DBOS.workflow()
def weather(location: str) -> str:
    log_lookup(location)
    place = ask(1, tool.which_place(location))
    if tool.CONSENT and not ask(2, tool.may_bill(place)):
        return "No lookup was made."
    units = ask(3, tool.which_units(place))
    charge(place)
    return tool.report(place, units)


def version() -> str:
    return "2" if tool.CONSENT else "1"  # as the hash of the changed source would be


def launch() -> None:
    url = f"sqlite:///{tool.STORE}/dbos.sqlite"
    how = {"run_admin_server": False, "log_level": "ERROR"}
    DBOS(
        config={
            "name": "weather",
            "system_database_url": url,
            "application_version": version(),
            **how,
        }
    )
    DBOS.launch()


def outcome(call: str, after: int) -> dict:
    """What comes after a question: the next one, or the result."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        handle = DBOS.retrieve_workflow(call)
        if handle.get_status().status not in ("PENDING", "ENQUEUED"):
            return tool.done(handle.get_result())
        question = DBOS.get_event(call, "question", timeout_seconds=0)
        if question and question["number"] > after:
            return tool.asked(question, {"call": call, "number": question["number"]})
        time.sleep(0.05)
    status = DBOS.retrieve_workflow(call).get_status()
    if status.app_version != version():
        return tool.parked(f"{status.status}, application version {status.app_version}")
    raise TimeoutError("the workflow does not go on")


def read(call: str, pause: dict | None, user: str) -> dict:
    """What the workflow's status says."""
    launch()
    status = DBOS.retrieve_workflow(call).get_status()
    if status.status == "SUCCESS":
        return tool.done(status.output)
    if status.app_version != version():
        return tool.parked(f"{status.status}, application version {status.app_version}")
    if status.status == "PENDING":
        return tool.asked(DBOS.get_event(call, "question", timeout_seconds=0), {"call": call})
    raise status.error


def start(call: str, location: str, user: str) -> dict:
    launch()
    with SetWorkflowID(call):
        DBOS.start_workflow(weather, location)
    return outcome(call, 0)


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    launch()
    DBOS.send(pause["call"], value, topic=name if TOPICS else None)
    return outcome(pause["call"], pause["number"])


if __name__ == "__main__":
    tool.deliver(start, resume, read)
    os._exit(0)  # a workflow that waits would keep the process
