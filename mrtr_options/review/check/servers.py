"""The servers of a proposal, and what comes of a run on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from mrtr_options.review.bench.deployments import Deployment, remote
from mrtr_options.review.bench.deployments.children import Children
from mrtr_options.review.bench.history import History, Received
from mrtr_options.review.bench.messages import HUNG
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.findings import Made, waiting_calls


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        history: The run's history.
        raised: The exceptions that the author's code raised in it.
        is_gone: Whether nothing answers at the server's address any more.
    """

    history: History
    raised: Counter[str] = field(default_factory=Counter[str])
    is_gone: bool = False

    @property
    def is_hung(self) -> bool:
        """Return whether a request had no response."""
        replies = [event.reply for event in self.history.events if isinstance(event, Received)]
        return any(reply.nothing == HUNG for reply in replies)


@dataclass
class Servers:
    """The servers of a proposal, on which one run is made after the other.

    Attributes:
        where: The deployment.
        made: The runs that were made there, in order.
    """

    where: Deployment
    made: list[Made] = field(default_factory=list[Made])

    @property
    def tracebacks(self) -> list[str]:
        """The latest exceptions of the author's code."""
        return self.where.raised if isinstance(self.where, Children) else []

    async def make(self, subject: Subject, scenario: Scenario) -> Outcome:
        """Make a run."""
        before = Counter(self.tracebacks)
        history = await run(subject, scenario, self.where)
        open_calls = len(waiting_calls(history))
        self.made.append(Made(scenario, len(history.exchanges), open_calls))
        raised = Counter(self.tracebacks) - before
        is_gone = isinstance(self.where, remote.Remote) and self.where.is_gone
        return Outcome(history, raised, is_gone)
