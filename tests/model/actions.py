"""The actions of the model, read from their words."""

import re

from model.world import Request

REQUEST = r"attempt \d round \d(?: with [a-z ]+?)*"
TAKES = re.compile(rf"instance (\d) takes ({REQUEST})(, answers at once)?")
WORKS = re.compile(rf"instance (\d): ([a-z ]+) \(({REQUEST})\)")
CRASHES = re.compile(r"instance (\d) crashes")
REPLACED = re.compile(r"instance (\d) is replaced by version 2")
WAITS = re.compile(rf"instance (\d) lets ({REQUEST}) wait")
GOES_ON = re.compile(rf"instance (\d) goes on with ({REQUEST})")
TIME_PASSES = "time passes"
FORGETS = re.compile(r"server forgets call (\d)")
OTHER_CALL = "other call: "
FAILS = " fails"

_NUMBERS = re.compile(r"attempt (\d) round (\d)")


def request_of(words: str) -> Request:
    """Return the request that an action names."""
    numbers = _NUMBERS.match(words)
    assert numbers is not None
    return Request(
        int(numbers[1]),
        int(numbers[2]),
        changed="with the changed answer" in words,
        early="with every answer" in words,
        consented="with consent" in words,
        renewed="with a renewed state" in words,
    )
