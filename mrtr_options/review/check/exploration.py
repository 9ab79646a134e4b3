"""The calls of a proposal under every set of faults up to a bound, as a part of a review."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from mrtr_options.review.bench.faults import Fault, names_of
from mrtr_options.review.bench.history import History
from mrtr_options.review.check.plan import Proposal
from mrtr_options.review.check.report import Report
from mrtr_options.review.check.servers import Outcome, Servers
from mrtr_options.review.explore.combinations import Play, explore, not_tried, possible
from mrtr_options.review.explore.counterexamples import Explored
from mrtr_options.review.judge.facts import anomalies_in


class Exploration:
    """One call under faults, and what its runs add to the report.

    Attributes:
        found: The anomalies that were found, by their faults.
    """

    def __init__(
        self, proposal: Proposal, found: Explored, servers: Servers, report: Report
    ) -> None:
        self.found = found
        self._subject = proposal.subject
        self._kinds = tuple(proposal.kinds)
        self._servers = servers
        self._report = report

    def begin(self) -> None:
        """Enter this exploration in the report."""
        if self._report.explored is None:
            self._report.explored = self.found
        else:
            self._report.otherwise.append(self.found)

    def runs(self, play: Play) -> AsyncGenerator[History]:
        """Make the runs."""
        can = [name for name in self._kinds if self._cannot(name) is None]
        return explore(self._subject, self.found.scenario, self.found.bound, play, can)

    def following(self, history: History) -> list[str | None]:
        """Return for each fault that can be added to a run why it cannot happen there, or None."""
        faults = possible(self._subject, history, self._kinds)
        return [self._cannot(fault.name) for fault in faults]

    def take(self, history: History) -> None:
        """Take the anomalies of a run into the report."""
        is_first = self._report.explored is self.found
        shown = anomalies_in(history)
        faults = history.scenario.faults
        self.found.take(faults, shown)
        examples = (self.found.counterexamples[name] for name in shown)
        if is_first and any(faults in sets for sets in examples):
            self._report.histories[names_of(faults)] = history
        if not faults:
            self._take_first(history, is_first)
        if Outcome(history).is_hung:
            self._report.unanswered += 1

    def _take_first(self, history: History, is_first: bool) -> None:
        """Take the kinds of faults that are not tried from the run without faults."""
        self.found.not_tried = not_tried(
            self._subject,
            self.found.scenario,
            can_strike=history.can_strike,
            kinds=self._kinds,
            cannot=self._cannot,
        )
        if is_first:
            self._report.left_out.update(filter(None, self.following(history)))

    def _cannot(self, name: str) -> str | None:
        return self._servers.where.cannot(self.found.scenario.under((Fault(1, 1, name),)))
