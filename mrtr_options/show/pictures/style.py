"""How every picture looks: one palette for verdicts, and what a notebook is handed.

The colours are those of Okabe and Ito, which colour-blind readers can tell apart; a verdict is always
written out too. Knows no data.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, cast

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

P = ParamSpec("P")
T = TypeVar("T")

WIDTH = 9.0
"""Inches: as wide as a notebook's page."""

DOTS_PER_INCH = 120
COLOURS_KEPT = 96
"""In a PNG: enough for a drawing, and a third of the bytes."""

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, YELLOW = "#0072B2", "#D55E00", "#CC79A7", "#F0E442"
GREY, PALE = "#767676", "#D9D9D9"

VERDICTS: dict[str, str] = {
    "once": "#BFE5D8",
    "missing": "#D3EAF8",
    "duplicated": VERMILION,
    "refused": "#F6EC8E",
    "lost": "#E3BBD1",
}
FATES: dict[str, str] = {
    "ok": VERDICTS["once"],
    "asked again": VERDICTS["missing"],
    "stale": VERDICTS["duplicated"],
    "refused": VERDICTS["refused"],
    "lost": VERDICTS["lost"],
}


class Markdown(str):
    """A text that a notebook shows as Markdown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class Picture:
    """A picture that a notebook shows.

    Attributes:
        png: The file.
        says: What there is to see, for who cannot see it.
    """

    png: bytes
    says: str

    def __repr__(self) -> str:
        return self.says

    def _repr_png_(self) -> bytes:
        return self.png


_SETTINGS = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so a picture is the same everywhere
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


def drawn(draw: Callable[P, T]) -> Callable[P, T]:
    """Has what draws a picture draw it in this style, and leaves the reader's own settings alone."""
    return cast("Any", matplotlib).rc_context(_SETTINGS)(draw)


def sheet(
    height: float, *, columns: int = 1, shares: Sequence[float] | None = None
) -> tuple[Any, list[Any]]:
    """An empty picture, and its axes from left to right.

    Args:
        height: Inches.
        columns: How many axes.
        shares: Of the width; equal without it.
    """
    figure: Any = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False, width_ratios=shares)
    return figure, list(axes.flat)


def picture(figure: Any, says: str) -> Picture:
    """A finished drawing as a small PNG."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    drawn.seek(0)
    small = io.BytesIO()
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(COLOURS_KEPT, dither=Image.Dither.NONE).save(
            small, format="png", optimize=True
        )
    return Picture(small.getvalue(), says)
