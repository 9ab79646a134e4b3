"""The choice of a way to write a tool: five questions, and advice for their answers.

README, CHOOSING, the page and `new` take their advice from here. What each choice still does wrong
is measured (`python -m documents --candidates`), and stands beside it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from mrtr_options.tool.notation import DEFAULT
from mrtr_options.tool.weather import Destination


@dataclass(frozen=True)
class Answers:
    """The answers to the questions; see `QUESTIONS`.

    Attributes:
        money: Whether money moves, or anything else that must not happen twice.
        changes: Whether a question's meaning may change while calls are open.
        store: Whether the instances share a store.
        business_key: Whether the destination knows a business key.
        one: Whether one instance is enough.
    """

    money: bool
    changes: bool
    store: bool
    business_key: bool
    one: bool


QUESTIONS = {
    "money": "Does money move, or anything that must not happen twice?",
    "changes": "May a question's meaning change while calls are open (a fee, a plan)?",
    "store": "Do you keep a store that all instances share (a SQLite file, PostgreSQL)?",
    "business_key": "Does the destination refuse a second effect about the same thing?",
    "one": "Is one instance enough?",
}
"""The questions, by the names of `Answers`."""

assert [*QUESTIONS] == [field.name for field in fields(Answers)]


@dataclass(frozen=True)
class Choice:
    """A piece of advice, and the answers that lead to it.

    Attributes:
        when: The answers that decide for it, in words.
        fits: Whether some answers are these.
        subject: The subject to take, as it is written for `play`.
        destination: Where its effects go then, at least.
        why: What that prevents, and how.
    """

    when: str
    fits: Callable[[Answers], bool]
    subject: str
    destination: Destination
    why: str


CHOICES = (
    Choice(
        "Money moves, and you keep a store",
        lambda said: said.money and said.store,
        DEFAULT,
        "ignores keys",
        "The guard knows a call that is made again, by the name that you give it, and answers from"
        " its record.",
    ),
    Choice(
        "Money moves, no store, and the destination knows a business key",
        lambda said: said.money and said.business_key,
        "J",
        "business key",
        "The destination refuses the second charge. A changed question is asked again.",
    ),
    Choice(
        "Money moves, no store, no business key, and one instance is enough",
        lambda said: said.money and said.one,
        "H",
        "ignores keys",
        "A resent request is answered from memory; a call that is made again charges again.",
    ),
    Choice(
        "Money moves, and you have none of these",
        lambda said: said.money,
        "J",
        "ignores keys",
        "Nothing prevents a second charge. Get a store or a business key.",
    ),
    Choice(
        "Nothing that matters happens twice, and a question may change",
        lambda said: said.changes,
        "J",
        "ignores keys",
        "A changed question is asked again, and an answer to another one is not taken.",
    ),
    Choice(
        "Nothing that matters happens twice, and questions stay as they are",
        lambda said: True,
        "E",
        "ignores keys",
        "It is the least code and needs nothing.",
    ),
)
"""The first that fits decides."""


def choose(answers: Answers) -> Choice:
    """Return the recommended choice for a set of answers."""
    return next(choice for choice in CHOICES if choice.fits(answers))
