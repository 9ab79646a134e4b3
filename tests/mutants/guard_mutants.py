"""Mutants of the guard: small changes to its code, each of which the drawn tools have to find."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest import mock

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample
from hypothesis.stateful import run_state_machine_as_test

from mrtr_options.sdk import call_key, effects, server
from mrtr_options.sdk.single_use import seen, sql
from tests.sdk.any_tool import finding
from tests.sdk.drawn_stories import Story, stories
from tests.sdk.test_single_use_store import Rounds, sqlite

MOST = 20_000
"""The number of examples in which a mutant has to be found; a search ends with the first find.

What is drawn depends on the modules that are loaded. So this is many times what any seed needs.
"""
SEARCH = settings(
    max_examples=MOST,
    stateful_step_count=60,
    database=None,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Slip(NamedTuple):
    """A change to one function or statement: `old` stands in it once, and becomes `new`."""

    owner: Any
    name: str
    old: str
    new: str

    @contextmanager
    def made(self) -> Generator[None]:
        """Make the change for the length of the block."""
        now = inspect.getattr_static(self.owner, self.name)
        code: Any = now.fget if isinstance(now, property) else now
        source = code if isinstance(code, str) else textwrap.dedent(inspect.getsource(code))
        assert source.count(self.old) == 1, f"{self.name} has not {self.old!r} once"
        changed: Any = source.replace(self.old, self.new)
        if not isinstance(code, str):
            names: dict[str, Any] = {}
            future = "from __future__ import annotations\n"
            exec(future + changed, vars(sys.modules[code.__module__]), names)
            changed = names[self.name]
        with mock.patch.object(self.owner, self.name, changed):
            yield


_EFFECTS = effects.CallEffects

MUTANTS = {
    "frees a name that had an effect when its question is too old": Slip(
        seen.Seen,
        "is_free",
        "self.is_unanswerable and self.effects is None",
        "self.is_unanswerable",
    ),
    "frees a name whose time is over while its round is at work": Slip(
        seen.Seen, "is_free", "bool(self.is_late) and not is_at_work", "bool(self.is_late)"
    ),
    "waits for ever for a dead process": Slip(
        seen.Seen, "recorded", "Abandoned if self.is_over else Pending", "Pending"
    ),
    "takes a round at work for an abandoned one": Slip(
        seen.Seen, "recorded", "Abandoned if self.is_over else Pending", "Abandoned"
    ),
    "repeats a question that is too old": Slip(
        seen.Seen, "recorded", "claim.made is None and self.is_unanswerable", "False"
    ),
    "does not look again in the transaction": Slip(
        sql.SqlStore,
        "_reserve",
        "    " * 4 + "seen = self._look_at(claim, values)",
        "    " * 4 + "pass",
    ),
    "takes the oldest round for the latest": Slip(sql, "_SEE_CALL", "max(seq)", "min(seq)"),
    "sets an old round aside without its number": Slip(
        sql, "_SET_ASIDE", "number || '.' || CAST(seq AS TEXT)", "'aside'"
    ),
    "frees a name after an effect": Slip(
        _EFFECTS,
        "keeps_name",
        "bool(self.done if isinstance(self.ending, NotDone) else self.names)",
        "False",
    ),
    "forgets the number of a call": Slip(_EFFECTS, "read", 'said["call"]', "self.call"),
    "saves no effect before it begins": Slip(_EFFECTS, "run", "await self.save(self)", "pass"),
    "does not ask the destination": Slip(
        _EFFECTS, "run", "if await self._is_settled(key, known, effect, settled):", "if False:"
    ),
    "runs again what can only in part be settled": Slip(
        _EFFECTS, "may_run_again", "self.may_repeat or all(", "self.may_repeat or any("
    ),
    "finds no outcome in a group": Slip(
        server.Tool, "_with_outcomes", "error = meant_by(failure)", "error = failure"
    ),
    "counts a default that is written out": Slip(
        call_key,
        "defaults_in",
        "_are_one(vars(read).get(name), _default_of(field))",
        "name not in read.model_fields_set",
    ),
    "reads a name as it was sent": Slip(
        call_key.CallNaming,
        "name_of",
        "arguments_as_read(params)",
        "(getattr(params, 'arguments', None) or {})",
    ),
}

OF_STORES = {
    "takes a round however old it is by now": Slip(
        sql, "_TAKE", "AND {now} BETWEEN :good_from AND :good_until", ""
    ),
    "compares the epoch off by one when it takes a round": Slip(
        sql.SqlStore, "_keeps", "int(epoch) + EPOCHS if", "int(epoch) + EPOCHS + 1 if"
    ),
    "does not look at the epoch again when it takes a round": Slip(
        sql, "_TAKE", "AND epoch <= :last_epoch ", ""
    ),
    "takes over what is at work": Slip(
        sql, "_TAKE_OVER", "AND (ends <= {now} OR owner = :owner)", ""
    ),
    "takes over with other answers": Slip(sql, "_TAKE_OVER", "AND answers IN (:answers, '')", ""),
    "lets a late process record": Slip(sql, "_RECORD", "AND owner = :owner", ""),
    "keeps the first answer of a question that is asked again": Slip(
        sql, "_REOPEN", "answers = '', ", ""
    ),
}
"""The mutants that the machine of stores shows.

Behind some of them tools meet a second check: the guard looks itself before it takes over, and an
answer counts only if its question is open.
"""


def found_by_tools(slip: Slip) -> bool:
    """Search a mutant by drawn tools."""

    def shows(story: Story) -> bool:
        return finding(story) is not None

    with slip.made():
        try:
            find(stories, shows, settings=SEARCH)
        except NoSuchExample:
            return False
    return True


def found_by_stores(slip: Slip) -> bool:
    """Search a mutant by the machine of two stores on one file."""
    numbers = count(1)
    with TemporaryDirectory() as folder, slip.made():
        machine: Any = lambda: Rounds(sqlite(Path(folder, f"{next(numbers)}.sqlite")))  # noqa: E731
        try:
            run_state_machine_as_test(machine, settings=SEARCH)
        except AssertionError:
            return True
    return False


SEARCHED = {
    name: (search, slip)
    for search, slips in ((found_by_tools, MUTANTS), (found_by_stores, OF_STORES))
    for name, slip in slips.items()
}
"""How each mutant is searched."""
