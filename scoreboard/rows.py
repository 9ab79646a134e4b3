"""A row of the scoreboard, whose cells can be cited: each has an address that stays.

Knows what a row is made of; nothing of servers, frameworks or proxies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from mrtr_options.terminal import markdown

Board = Literal["servers", "frameworks", "proxies"]

BAD = re.compile(
    r"(\w+: )?(taken|twice|every call lost|empty result|reaches the client|lost\b)"
    r"|(MRTR|2025-11-25): servers MUST|no call with two questions"
    r"|.*(charged twice|other words used|not asked|ignored answer|billed what was no choice)"
)
"""The beginnings of outcomes that a table prints in bold."""


class Upstream(BaseModel):
    """What the maintainers of a library know of a finding.

    Attributes:
        cells: The columns that it concerns.
        status: How far it is with them.
        fixed_in: The version that fixes it; empty if none does.
        says: The maintainers' sentence, quoted.
        address: The page with that sentence.
        date: The day on which it was read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cells: list[str]
    status: Literal["reported", "fixed", "disputed"]
    fixed_in: str = ""
    says: str = ""
    address: str
    date: str

    @property
    def words(self) -> str:
        """The status and the sentence, with a link."""
        status = f"fixed in {self.fixed_in}" if self.fixed_in else self.status
        said = f': "{self.says}"' if self.says else ""
        return f"[{status}]({self.address}){said}"


class Cell(BaseModel):
    """A cell of a row.

    Attributes:
        says: The outcome of the documented form.
        adds: The outcome with all that the library offers; empty if it is the same.
    """

    says: str
    adds: str = ""

    @property
    def words(self) -> str:
        """Both outcomes, with an arrow between them."""
        return " → ".join(filter(None, (self.says, self.adds)))


class Row(BaseModel):
    """A row of a board.

    Attributes:
        id: Its address, such as "servers/neva": it stays the same from round to round.
        title: The name of the library.
        form: The documented form that was played.
        version, date: The version of the library, and the day of the runs.
        cells: The cells, by column.
        upstream: What its maintainers know; "not reported" if they were told nothing.
    """

    id: str
    title: str
    form: str
    version: str
    date: str
    cells: dict[str, Cell]
    upstream: str = "not reported"


Heads = Mapping[str, str]
"""The columns of a board, and their heads."""

Runs = dict[str, list[str]]
"""The runs behind cells, by the cell's address; those of what an option adds end in "/all"."""


def upstream_of(known: Sequence[Upstream]) -> str:
    """Return what maintainers know, in words."""
    return "; ".join(each.words for each in known) or "not reported"


def slug(text: str) -> str:
    """Return a text as a part of an address."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def strong(outcome: str) -> str:
    """Return an outcome for a table in Markdown, in bold if it harms somebody."""
    return f"**{outcome}**" if outcome and BAD.match(outcome) else outcome


def marked(cell: Cell) -> str:
    """Return a cell for a table in Markdown."""
    return " → ".join(strong(each) for each in cell.words.split(" → "))


def table(first: str, heads: Heads, rows: Sequence[Row]) -> str:
    """Return a board in Markdown; the head of a column has the column's name in addresses.

    Args:
        first: The head of the first column.
        heads: The other columns.
        rows: The rows. A row's name leads to the page of its library.
    """

    def cells() -> Iterator[Sequence[str]]:
        for row in rows:
            form = f", {row.form}" if row.form else ""
            name = f"[{row.title}](libraries/{row.id.split('/')[1]}.md){form}"
            found = (row.cells.get(column, Cell(says="")) for column in heads)
            yield (name, *map(marked, found))

    return markdown((first, *(f"{says} (`{column}`)" for column, says in heads.items())), cells())


def printed(rows: Iterable[Row]) -> str:
    """Return rows for a terminal: a line for each cell, with its address."""
    return "\n".join(
        f"{row.id}/{column}: {cell.words}" for row in rows for column, cell in row.cells.items()
    )
