"""A state of the model as the definitions of anomalies read it.

The definitions are those that the judge holds histories to: the one module of `mrtr_options` that
the model imports, which knows no more of the package than this file shows.
"""

from model.world import DIFFERS, REFUSED_AS_ONE, TAKES_OLD, World
from mrtr_options.review.judge.anomalies import ANOMALIES, shown_in

WITHOUT_WORDS = (
    "answer to other words used",
    "new question not asked",
    "misrouted answer",
    "ignored answer",
)
"""The anomalies that the model cannot show: it has no words of questions and of reports."""

NAMES = tuple(each.name for each in ANOMALIES if each.name not in WITHOUT_WORDS)
"""The anomalies that the model can show."""


def anomalies(world: World) -> frozenset[str]:
    """Return the names of the anomalies that a state shows."""
    return shown_in(StateReading(world))


class StateReading:
    """The facts about a state. A call that is not over yet is neither reported nor failed."""

    takes_other_words = leaves_out_a_question = False
    reports_another_answer = False
    unheeded = ()
    never_ends = False  # a property of all ways on: the search finds it

    def __init__(self, world: World) -> None:
        client, other = world.client, world.other
        self._world = world
        self.calls = client.wanted + (0 if other is None else 1)
        self.effects_due = self.calls + client.changes
        self.bills = world.destination.bills
        self.audits = world.destination.audits
        self.has_report = client.told == "result"
        self.has_failed = client.told == "error"
        self.lacks_effect = self.bills == 0 or self.audits == 0

    @property
    def reported(self) -> int:
        """The number of calls whose clients hold a report."""
        client, other = self._world.client, self._world.other
        of_others = 1 if other is not None and other.told == "result" else 0
        return client.wanted - (0 if self.has_report else 1) + of_others

    @property
    def bills_of_others(self) -> int:
        """The number of other calls that may have been billed: all whose client has no error."""
        client, other = self._world.client, self._world.other
        of_others = 1 if other is not None and other.told != "error" else 0
        return client.wanted - 1 + of_others

    @property
    def was_asked_last(self) -> bool:
        """Return whether the user answered the last question, in this call or another."""
        client, other = self._world.client, self._world.other
        other_was_asked = other is not None and other.answered[1] > 0
        return client.answered[1] > 0 or client.wanted > 1 or other_was_asked

    @property
    def is_asked_again(self) -> bool:
        """Return whether the user answered a question twice."""
        return max(self._world.client.answered) > 1

    @property
    def is_refused(self) -> bool:
        """Return whether the client was told to start over."""
        return self._world.client.start_over

    @property
    def agrees(self) -> bool:
        """Return whether no request both failed and succeeded."""
        return DIFFERS not in self._world.noticed

    @property
    def takes_an_old_state(self) -> bool:
        """Return whether a round was begun with a state that is too old."""
        return TAKES_OLD in self._world.noticed

    @property
    def takes_calls_for_one(self) -> bool:
        """Return whether another call was refused under the name of the first."""
        return REFUSED_AS_ONE in self._world.noticed
