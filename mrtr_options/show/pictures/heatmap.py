"""The matrix as a heat map: a row for each schedule, a column for each option, the verdict in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from mrtr_options.bench.observations import Observation
from mrtr_options.show.matrix import heading
from mrtr_options.show.pictures.style import FATES, VERDICTS, Picture, drawn, picture, sheet

ROW_INCHES = 0.185


@drawn
def verdicts(observations: Sequence[Observation], title: str) -> Picture:
    """What happened under each schedule: the cell is audits/bills, the colour the verdict.

    Args:
        observations: Of one era and one deployment.
        title: What they are of.
    """
    found = {(seen.schedule, heading(seen)): (seen.verdict, seen.cell) for seen in observations}
    return _draw(found, VERDICTS, title)


@drawn
def fates(observations: Sequence[Observation], title: str) -> Picture:
    """What became of the calls that were in flight in a redeploy."""
    found = {
        (seen.schedule.removeprefix("redeploy-"), heading(seen)): (seen.fate, seen.fate)
        for seen in observations
        if seen.fate is not None
    }
    return _draw(found, FATES, title)


def _draw(
    found: Mapping[tuple[str, str], tuple[str, str]], colours: Mapping[str, str], title: str
) -> Picture:
    rows = list(dict.fromkeys(row for row, _ in found))
    columns = list(dict.fromkeys(column for _, column in found))
    names = list(colours)
    colour_map = ListedColormap(["white", *colours.values()])
    figure, (axes,) = sheet(len(rows) * ROW_INCHES + 1.0)
    numbers = [
        [names.index(found[row, column][0]) + 1 if (row, column) in found else 0 for column in columns]
        for row in rows
    ]
    axes.imshow(numbers, cmap=colour_map, vmin=0, vmax=len(names), aspect="auto")
    axes.set_title(title, pad=8)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns, weight="bold")
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.set_xticks([number - 0.5 for number in range(1, len(columns))], minor=True)
    axes.set_yticks([number - 0.5 for number in range(1, len(rows))], minor=True)
    axes.grid(which="major", visible=False)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0, top=False)
    axes.spines[:].set_visible(False)
    worst = next(name for name in names if colours[name] == VERDICTS["duplicated"])
    for (row, column), (name, text) in found.items():
        axes.text(
            columns.index(column),
            rows.index(row),
            text.replace(" ", "\n") if len(text) > 7 else text,
            ha="center",
            va="center",
            fontsize=6.5 if len(text) <= 3 else 5.5,
            linespacing=0.8,
            color="white" if name == worst else "black",
            weight="bold" if name == worst else "normal",
        )
    legend = [Patch(facecolor=colours[name], label=name) for name in names]
    figure.legend(handles=legend, loc="outside lower center", ncols=len(names), frameon=False)
    counts = {name: sum(each == name for each, _ in found.values()) for name in names}
    return picture(
        figure,
        f"{title}: {len(rows)} rows, columns {', '.join(columns)}; "
        + ", ".join(f"{name} {count}" for name, count in counts.items())
        + ".",
    )
