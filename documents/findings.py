"""The runs behind the pages in `docs/results/findings/`: pictures, commands, who is affected.

A page is written by hand around generated parts, so that its history, its numbers and its command
are those of a run. Knows the explored rows, the runs and how they are drawn; nothing of the pages'
text.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import anyio

from documents import ROOT, explored
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.schedules import SCHEDULES, named
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.explore import NOT_TRIED
from mrtr_options.review.explore import summary as explore
from mrtr_options.review.judge.anomalies import ANOMALIES, listed
from mrtr_options.review.judge.observation import Observation
from mrtr_options.review.show.runs import end_of
from mrtr_options.review.show.svg import svg
from mrtr_options.terminal import markdown
from mrtr_options.tool.catalogue import all_options
from mrtr_options.tool.notation import list_in_text


@dataclass(frozen=True)
class Counterexample:
    """A smallest history that shows a finding.

    Attributes:
        title: The title of the picture.
        subject: The subject, as `play` takes it at the root of the repository.
        faults: The faults to play.
        schedule: The schedule to play instead of faults.
        policy: The client's policy when a response is lost.
    """

    title: str
    subject: str
    faults: str = ""
    schedule: str = ""
    policy: str = "resends"

    @property
    def command(self) -> str:
        """The command that shows the history in a terminal."""
        words = ["play", self.subject]
        words += [self.schedule] if self.schedule else ["--faults", self.faults]
        if not self.schedule:
            words += ["--client", self.policy.replace(" ", "-")]
        return f"python -m mrtr_options {shlex.join(words)}"

    @cached_property
    def history(self) -> History:
        """The history of the run."""
        return anyio.run(self._play)

    async def _play(self) -> History:
        path = str(ROOT / self.subject) if "/" in self.subject else self.subject
        subject = subject_named(path)
        if self.schedule:
            return await run(subject, named(self.schedule).on_one())
        return await run(subject, calling(policy=self.policy).under(parse(self.faults)))

    @property
    def drawing(self) -> str:
        """The history as an SVG document."""
        return svg(self.history, self.title)


COUNTEREXAMPLES: dict[str, Counterexample] = {
    "lost-final-response": Counterexample(
        "F: the last response is lost, and the client resends", "F", faults="lost3"
    ),
    "lost-first-response": Counterexample(
        "F: the first response is lost, and the client calls again",
        "F",
        faults="lost1",
        policy="calls again",
    ),
    "questions-by-position": Counterexample(
        "M: “metric” becomes the consent to be billed",
        "M",
        faults="redeploy3",
    ),
    "crash-after-effect": Counterexample(
        "L: the instance dies after the bill, before its record", "L", faults="crash@bill3"
    ),
    "official-suite": Counterexample(
        "E with one bug: the user declines, and is billed",
        "docs/results/findings/e_no_is_yes.py",
        schedule="decline",
    ),
}
"""The counterexample of each page, by the page's name."""


def image_of(name: str) -> str:
    """Return the picture of a page, as a Markdown image."""
    return f"![{COUNTEREXAMPLES[name].title}]({name}.svg)"


def command_of(name: str) -> str:
    """Return the command of a page, and the last line that the command prints."""
    found = COUNTEREXAMPLES[name]
    end = end_of(found.history).plain.strip()
    return f"```console\n$ {found.command}\n{end}\n```"


# --- who is affected ----------------------------------------------------------------------------


def affected_subjects(name: str) -> str:
    """Return a table of what the fault of a page does to each subject, on two sticky instances."""
    fault = COUNTEREXAMPLES[name].faults
    cells: dict[str, list[str]] = {}
    for row in explored.read():
        if (row["fleet"], row["era"], row["destination"]) != ("sticky", "modern", "ignores keys"):
            continue
        names: list[str] = []
        for anomaly in ANOMALIES:
            sets = row["witnesses"].get(anomaly.name, ())
            if "" in sets:
                names.append(f"{anomaly.name} (in every call)")
            elif fault in sets:
                names.append(anomaly.name)
        if {each.name for each in parse(fault)} & {*explore.left_out(row)}:
            names.append(NOT_TRIED)
        cells.setdefault(row["subject"], []).append(listed(names) or "none")
    return group_rows(("subjects", *(f"the client {policy}" for policy in POLICIES)), cells.items())


FATES = ("ok", "asked again", "stale", "refused", "lost")


def count_fates(runs: Sequence[Observation]) -> str:
    """Return a table of how open calls end in redeploys: a row per option, a column per fate."""
    changes = [slug for slug, schedule in SCHEDULES.items() if schedule.scenario.changes]
    found: dict[str, Counter[str | None]] = {}
    for letter in all_options():
        found[letter] = Counter(
            seen.fate
            for seen in runs
            if (seen.subject, seen.deployment) == (letter, "two") and seen.schedule in changes
        )
        found[letter][NOT_TRIED] = len(changes) - found[letter].total()
    heads = [*FATES]
    if any(fates[NOT_TRIED] for fates in found.values()):
        heads.append(NOT_TRIED)
    rows = ((letter, [str(fates[head]) for head in heads]) for letter, fates in found.items())
    return group_rows(("options", *heads), rows)


def compare_keys(runs: Sequence[Observation]) -> str:
    """Return audits/bills after a crash that follows the bill, with and without honoured keys."""
    slugs = {"crash-after-effect": "no keys", "crash-after-effect-keyed": "keys are honoured"}
    cells: dict[str, dict[str, str]] = {}
    for seen in runs:
        if seen.schedule in slugs and (seen.era, seen.deployment) == ("modern", "one"):
            cell = "refused" if seen.outcome == "refused" else seen.cell
            cells.setdefault(seen.subject, {})[seen.schedule] = cell
    rows = ((subject, [*by_schedule.values()]) for subject, by_schedule in cells.items())
    return group_rows(("subjects", *slugs.values()), rows)


def group_rows(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return a table in which the names of rows with equal cells share one row."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, row in rows:
        found.setdefault(tuple(row), []).append(name)
    return markdown(head, ((list_in_text(names), *row) for row, names in found.items()))
