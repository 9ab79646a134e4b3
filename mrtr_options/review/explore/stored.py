"""The results of explorations in a file, so that a command can go on where another one ended."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from mrtr_options.errors import UsageError
from mrtr_options.review.bench.faults import Faults, names_of, parse
from mrtr_options.review.bench.messages import JsonObject
from mrtr_options.review.bench.redeploys import next_versions
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.explore.counterexamples import Explored
from mrtr_options.review.explore.kept import KeptLines, digest_of

PACKAGE = Path(__file__).parents[2]


class CannotResume(UsageError):
    """A file that does not hold shares of this code. The text is one line that says what to do."""


@dataclass(frozen=True)
class Share:
    """A part of an exploration: the sets of faults of one call that begin with certain faults.

    Attributes:
        subject: The subject that is called.
        scenario: The call without faults.
        bound: The most faults at a time.
        first: The faults with which its sets begin; none for the run without faults, whose bound
            is 0.
    """

    subject: Subject
    scenario: Scenario
    bound: int
    first: Faults = ()

    @property
    def called(self) -> tuple[Subject, Scenario]:
        """The subject that is called, and the scenario with its client."""
        return self.subject, self.scenario

    @property
    def key(self) -> str:
        """The key under which the result is stored."""
        option = self.subject.option
        about = Explored(self.subject, self.scenario, self.bound).as_json()
        files = f"{option.source}{next_versions(option)}{option.guarantees}"
        about["files"] = digest_of(files)
        return json.dumps([*about.values(), names_of(self.first)])


@dataclass
class StoredShares:
    """The stored results of shares, in a file with a line for each.

    Args:
        path: The file; made if it is not there. None to store nothing.

    Raises:
        CannotResume: It cannot be used.
    """

    path: Path | None
    _rows: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])

    def __post_init__(self) -> None:
        if self.path is None:
            return
        try:
            self._rows = _read_rows(self.path)
        except OSError as error:
            raise CannotResume(f"cannot use {self.path}: {error.strerror}") from error
        except (ValueError, LookupError, TypeError):
            raise CannotResume(
                f"{self.path} does not hold saved explorations; name a new file"
            ) from None

    def load(self, share: Share) -> Explored | None:
        """Return the result of a share; None if it is not stored."""
        row = self._rows.get(share.key)
        if row is None:
            return None
        return Explored(
            share.subject,
            share.scenario,
            share.bound,
            row["histories"],
            {name: [_parse_all(each) for each in sets] for name, sets in row["witnesses"].items()},
            {_parse_all(faults): what for faults, what in row["unclassified"].items()},
        )

    def store(self, share: Share, result: Explored) -> None:
        """Store the result of a share."""
        if self.path is None:
            return
        written = result.as_json()
        row = {
            "share": share.key,
            "histories": written["histories"],
            "witnesses": written["witnesses"],
            "unclassified": {names_of(at): what for at, what in result.unclassified.items()},
        }
        KeptLines(self.path).add(row)


def _read_rows(path: Path) -> dict[str, JsonObject]:
    """Read the results in a file, by their keys. Begin the file if it is new."""
    file = KeptLines(path)
    rows = file.read()
    if not rows:
        if path.exists() and path.stat().st_size:
            raise ValueError  # half a line is no file of ours
        file.add({"code": _digest_code()})
        return {}
    if rows[0]["code"] != _digest_code():
        raise CannotResume(f"{path} was started with other code; name a new file")
    return {row["share"]: row for row in rows[1:]}


def _parse_all(text: str) -> Faults:
    return tuple(fault for name in text.split() for fault in parse(name))


@cache
def _digest_code() -> str:
    """Return a digest that changes with any file of this package."""
    return digest_of(*sorted(PACKAGE.rglob("*.py")))
