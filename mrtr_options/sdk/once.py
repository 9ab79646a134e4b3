"""Option F: `once`, a marker in the state for every effect that has run.

The handler still runs from its first line in every round. An effect wrapped in `once` leaves a
marker in the state, the state goes to the client with the next question, and the next round finds
the marker and skips the effect. The effect runs *at most once per checkpoint that the client
received*: when the response with the marker is lost, the marker is lost with it and the effect runs
again. The final round has no checkpoint at all.

An effect that is not wrapped still runs in every round.

Knows `effects` and `keys`: the markers travel in whatever state the author keeps.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

from pydantic import BaseModel

from mrtr_options.sdk.effects import Settled, effects_here, value_of
from mrtr_options.sdk.handler import Action, T
from mrtr_options.sdk.keys import Uses


class Markers(BaseModel):
    """Base of a state that remembers which effects have run.

    It must be signed or sealed: a client that can write markers can skip effects.

    Attributes:
        done: Keys of the effects that have run, in the order in which they did.
        returned: Their values, by key.
    """

    done: list[str] = []
    returned: dict[str, Any] = {}

    def model_post_init(self, context: object) -> None:
        """Tell the wrappers of this request which effects have run."""
        effects_here().add(self.done)

    @cached_property  # pydantic takes ten times as long over a private attribute
    def _uses(self) -> Uses:
        return Uses()

    async def once(
        self,
        key: str,
        effect: Action[T],
        *,
        settled: Settled | None = None,
    ) -> T:
        """Run an effect unless its marker is in the state, and return what it returned, as JSON.

        A key is one effect's: a second use of it in one round is an error. An effect that raises
        leaves no marker and may be tried again under its key. In the guard a later round asks
        `settled` first, and is in doubt without it.

        Args:
            key: The effect's name; the author's own, unique in the tool, stable across versions.
            effect: Does the effect; async or not.
            settled: Asks the destination whether it has happened, before it is tried again; see
                `ReplayContext.once`.

        Raises:
            KeyUsedTwice: A ValueError; the key was used in this round. It names both places.
            TypeError, ValueError: The key is not a text that a state can hold.
        """
        with self._uses.taken("effect", key):
            if key not in self.done:
                value = await effects_here().run(key, effect, settled)
                self.done.append(key)
                if value is not None:
                    self.returned[key] = value
            return cast("T", value_of(effect, self.returned.get(key)))
