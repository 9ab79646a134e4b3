"""The findings on frameworks: a history, who else is affected, and the command.

A page is written by hand around the parts that are generated here from docs/data/scoreboard.json.
Knows the kept results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mrtr_options.terminal import markdown
from scoreboard.board import Scoreboard
from scoreboard.frameworks.cases import ATTACKS
from scoreboard.frameworks.frameworks import frameworks
from scoreboard.frameworks.page import WORDS_OF, attack, name_of, rows, said
from scoreboard.rows import strong


@dataclass(frozen=True)
class Finding:
    """The content of a page.

    Attributes:
        framework, variant: The names of the framework and the variant whose history it shows.
        cases: The cases. The history is of the first one.
        others: The other frameworks in its table; empty for all frameworks.
    """

    framework: str
    variant: str
    cases: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The framework, its version and the variant, as in "LangGraph 1.2.24, one node"."""
        found = frameworks()[self.framework]
        return f"{found.title} {found.version}, {self.variant}"

    @property
    def command(self) -> str:
        """The command that plays the history again."""
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
"""The finding of each page, by the page's name."""


def history(found: Finding, board: Scoreboard) -> str:
    """Return the run of a page."""
    played = board.frameworks[found.framework].variants[found.variant].cases[found.cases[0]]
    head = f"{found.title}: {WORDS_OF[found.cases[0]]}."
    return "\n".join((head, "", "```text", *played.history, "```"))


def affected(found: Finding, board: Scoreboard) -> str:
    """Return a table of how the cases of a page end, with the anomalies that a clean call lacks."""
    lines: list[Sequence[str]] = []
    for framework, variant, seen in rows(board):
        if found.others and framework.name not in (found.framework, *found.others):
            continue
        cells: list[str] = []
        for case in found.cases:
            played = seen.cases.get(case)
            already = () if case == "clean" else seen.cases["clean"].shown
            if played is None:
                cells.append("")
            elif case in ATTACKS:
                cells.append(strong(attack(played)))
            else:
                cells.append(said(played, already))
        lines.append((name_of(framework, variant), *cells))
    return markdown(("framework", *(WORDS_OF[case] for case in found.cases)), lines)


def reproduced(found: Finding, board: Scoreboard) -> str:
    """Return the command, and the version that it installs."""
    about = frameworks()[found.framework]
    date = board.frameworks[found.framework].variants[found.variant].date
    return "\n".join(
        (
            f"```console\n$ {found.command}\n```",
            "",
            f"It installs `{about.package}` {about.version}. What is shown was run on {date}.",
        )
    )
