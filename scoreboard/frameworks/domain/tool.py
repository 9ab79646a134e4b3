"""What the programs in Python share: the tool's questions and effects, and how a program is called.

A program is started for each delivery. It reads one JSON line and writes one (README.md says
which). Places, texts and the ledger are in weather.py. Knows no framework.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import weather
from weather import places

STORE = Path(os.environ.get("MRTR_STORE", "."))
"""Where a framework keeps what it has to remember between two deliveries."""
CONSENT = os.environ.get("MRTR_VERSION") == "inserted"
"""Whether this is the next version of the tool, which asks for consent before it asks for the
units.
"""


# --- questions ----------------------------------------------------------------------------------


def which_place(location: str) -> dict:
    return {"key": "place", "message": f"Which {location}?", "choices": places(location)}


def which_units(place: str) -> dict:
    return {
        "key": "units",
        "message": f"Which units for {place}?",
        "choices": ["metric", "imperial"],
    }


def may_bill(place: str) -> dict:
    return {
        "key": "consent",
        "message": f"The report for {place} is billed. Go on?",
        "choices": ["yes"],
    }


def report(place: str, units: str) -> str:
    """The result. A place that no user can have chosen has one, too: the tool refuses nothing, so
    that each refusal in a history is the framework's.
    """
    return weather.report(place, units) if place in weather.TODAY else f"{place}: not known."


# --- effects ------------------------------------------------------------------------------------


def audit(location: str) -> None:
    """A lookup was requested."""
    _do("audit", location)


def bill(place: str) -> None:
    """A lookup is metered."""
    time.sleep(float(os.environ.get("MRTR_SLOW", "0")))  # so that two deliveries at once meet
    _do("bill", place)


def _do(kind: str, subject: str) -> None:
    weather._record(kind, subject)  # the frameworks' steps are no coroutines
    if os.environ.get("MRTR_CRASH") == kind:
        os.kill(os.getpid(), signal.SIGKILL)


# --- one delivery -------------------------------------------------------------------------------


def asked(question: dict, pause) -> dict:
    """The tool pauses: what the person is asked, and what the next delivery brings along."""
    return {"asked": question, "pause": pause}


def done(text: str) -> dict:
    """The tool has ended."""
    return {"done": text}


def parked(status: str) -> dict:
    """The framework keeps the call, and nothing here may run it: its status in the framework's
    words.
    """
    return {"parked": status}


def silent() -> dict:
    """The framework has returned, without a question, a result or an error."""
    return {"silent": True}


def deliver(start, resume, read=None) -> None:
    """Make one delivery.

    `start(call, location, user)` or `resume(pause, name, value, user)`; `read(call, pause, user)`
    looks up what has become of a call, as the framework's documentation says to do it.
    """
    line = json.loads(sys.stdin.readline())
    wire, sys.stdout = sys.stdout, sys.stderr  # what a framework prints is no answer
    try:
        if "read" in line:
            reply = read(**line["read"]) if read else {"unread": True}
        else:
            reply = (start if "call" in line else resume)(**line)
    except Exception as error:
        traceback.print_exc()
        said = str(error).strip().splitlines() or [""]
        text = f"{type(error).__name__}: {said[0]}"[:300]
        reply = {"error": text, "by": "us" if _is_ours(error) else "library"}
    print(json.dumps(reply), file=wire, flush=True)


def _is_ours(error: BaseException) -> bool:
    """Whether a line of these programs raised it, and not one of a library."""
    here = Path(__file__).resolve().parent
    raised = Path(traceback.extract_tb(error.__traceback__)[-1].filename).resolve()
    return here in raised.parents and "site-packages" not in raised.parts
