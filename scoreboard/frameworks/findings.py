"""The findings on frameworks in docs/findings: a history, who else is affected, and the command.

A page is written by hand around what is made here from docs/scoreboard.json. Knows what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mrtr_options.terminal import markdown
from scoreboard.board import Scoreboard
from scoreboard.frameworks.cases import ATTACKS
from scoreboard.frameworks.frameworks import frameworks
from scoreboard.frameworks.page import WORDS_OF, attack, name_of, rows, said
from scoreboard.servers.page import PAGE

FOLDER = PAGE.parent / "findings"


@dataclass(frozen=True)
class Finding:
    """What a page shows.

    Attributes:
        framework, variant: Whose history it shows.
        cases: In which cases; the history is of the first.
        others: The frameworks beside it that its table has; all of them where there are none.
    """

    framework: str
    variant: str
    cases: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """As in "LangGraph 1.2.24, one node"."""
        found = frameworks()[self.framework]
        return f"{found.title} {found.version}, {self.variant}"

    @property
    def command(self) -> str:
        """What plays it again."""
        return f"python -m scoreboard.frameworks --only {self.framework} --case {self.cases[0]}"


FINDINGS: dict[str, Finding] = {
    "answer-taken-twice": Finding(
        "langgraph", "one node", ("first-twice", "first-lost", "at-once")
    ),
    "two-waits-in-one-step": Finding(
        "llamaindex", "two waits in one step, with `waiter_id`", ("clean",), ("llamaindex",)
    ),
    "lost-result-in-frameworks": Finding(
        "agent-framework", "questions and effects in steps", ("last-lost", "crash-bill")
    ),
    "state-with-the-caller": Finding("vercel", "messages with the caller", ("edited", "others")),
    "durable-by-hand": Finding(
        "temporal", "signals", ("crash-bill", "last-lost", "at-once"), ("dbos", "restate")
    ),
    "added-question": Finding("langgraph", "one node", ("added-second", "added-first")),
}
"""By the name of the page."""


def history(found: Finding, board: Scoreboard) -> str:
    """The run of a page."""
    played = board.frameworks[found.framework].variants[found.variant].cases[found.cases[0]]
    head = f"{found.title}: {WORDS_OF[found.cases[0]]}."
    return "\n".join((head, "", "```text", *played.history, "```"))


def affected(found: Finding, board: Scoreboard) -> str:
    """How the cases of a page end, and what they show beside a call in which nothing goes wrong."""
    lines: list[Sequence[str]] = []
    for framework, variant, seen in rows(board):
        if found.others and framework.name not in (found.framework, *found.others):
            continue
        cells: list[str] = []
        for case in found.cases:
            played = seen.cases.get(case)
            already = () if case == "clean" else seen.cases["clean"].shown
            cells.append(
                attack(played) if case in ATTACKS else said(played, already) if played else ""
            )
        lines.append((name_of(framework, variant), *cells))
    return markdown(("framework", *(WORDS_OF[case] for case in found.cases)), lines)


def reproduced(found: Finding, board: Scoreboard) -> str:
    """The command, and the version that it installs."""
    about = frameworks()[found.framework]
    date = board.frameworks[found.framework].variants[found.variant].date
    return "\n".join(
        (
            f"```console\n$ {found.command}\n```",
            "",
            f"It installs `{about.package}` {about.version}. What is shown was run on {date}.",
        )
    )


def part(
    write: Callable[[Finding, Scoreboard], str], found: Finding, board: Scoreboard
) -> str | None:
    """A part of a page; None where its framework was not played."""
    return write(found, board) if found.framework in board.frameworks else None


def page_of(name: str) -> Path:
    """The page of a name."""
    return FOLDER / f"{name}.md"
