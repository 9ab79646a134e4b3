"""What was measured, with the baselines and the targets in the same picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mrtr_options.cost.floor import FLOOR
from mrtr_options.cost.growth import ANSWER_CHARACTERS
from mrtr_options.cost.memory import VERBS
from mrtr_options.cost.report import Report
from mrtr_options.cost.targets import TO_THE_FLOOR, targets
from mrtr_options.cost.timing import Row
from mrtr_options.show.pictures.style import (
    BLACK,
    GREY,
    PALE,
    Markdown,
    Picture,
    drawn,
    look,
    picture,
    sheet,
)
from mrtr_options.show.pictures.tables import table


@drawn
def calls(report: Report) -> Picture:
    """One call with one question in memory, as a ratio to the floor; L and K, on a database, apart."""
    rows = [row for row in report.rows["calls"] if row.subject != FLOOR]
    quick = [row for row in rows if row.number("ratio") < 6]
    slow = [row for row in rows if row.number("ratio") >= 6]
    figure, axes = sheet(
        3.2,
        columns=2 if slow else 1,
        shares=(len(quick) + 1, len(slow) + 2) if slow else None,
    )
    names = [row.subject for row in quick]
    _bars(axes[0], quick)
    axes[0].axhline(1, color=BLACK, linewidth=1, linestyle="--", zorder=3, label="floor")
    for number, name in enumerate(names):
        if name in TO_THE_FLOOR:
            axes[0].plot(
                [number - 0.42, number + 0.42],
                [TO_THE_FLOOR[name]] * 2,
                color=BLACK,
                linewidth=2,
                zorder=4,
                label="target, at most" if name == next(iter(TO_THE_FLOOR)) else None,
            )
    axes[0].legend(loc="upper left")
    axes[0].set_title("one call with one question, in memory")
    axes[0].set_ylabel("time, in times of the floor's")
    axes[0].set_xlabel("option")
    if slow:
        _bars(axes[1], slow)
        axes[1].set_title("on a database (SQLite)")
        axes[1].set_xlabel("option")
    said = _said((*quick, *slow), "ratio:.2f")
    return picture(figure, f"Time of one call in times of the floor's: {said}")


def _bars(axes: Any, rows: Sequence[Row]) -> None:
    names = [row.subject for row in rows]
    for number, row in enumerate(rows):
        way, ratio = look(row.subject), row.spread("ratio")
        axes.bar(
            [number], [ratio.median], 0.7, color=way.colour, hatch=way.hatch, edgecolor="white", zorder=2
        )
        axes.errorbar(
            [number],
            [ratio.median],
            [[ratio.median - ratio.low], [ratio.high - ratio.median]],
            color=GREY,
            linewidth=1,
            capsize=3,
            zorder=3,
        )
        axes.text(number, ratio.high, f"{ratio.median:.2f}", ha="center", va="bottom", fontsize=7.5)
    axes.set_xticks(range(len(names)), names, weight="bold")
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.12)


def _line(axes: Any, name: str, xs: Sequence[float], ys: Sequence[float]) -> None:
    way = look(name)
    axes.plot(
        xs,
        ys,
        color=way.colour,
        linestyle=way.line,
        marker=way.marker,
        markersize=4.5,
        linewidth=1.5,
        label=name,
    )


@dataclass(frozen=True)
class _Panel:
    """A figure by a condition, a line for each subject."""

    figure: str
    title: str
    label: str
    log: bool = False


def _lines(rows: Sequence[Row], by: str, panels: Sequence[_Panel], label: str, base: int = 0) -> Any:
    """A sheet with these panels. With a base, the condition's scale is logarithmic."""
    figure, all_axes = sheet(3.6, columns=len(panels))
    ticks = sorted({row.number(by) for row in rows})
    for axes, panel in zip(all_axes, panels, strict=True):
        for subject in dict.fromkeys(row.subject for row in rows):
            own = [row for row in rows if row.subject == subject]
            xs, ys = ([row.number(name) for row in own] for name in (by, panel.figure))
            _line(axes, subject, xs, ys)
        if base:
            axes.set_xscale("log", base=base)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xlabel(label)
        axes.set_yscale("log" if panel.log else "linear")
        axes.set_ylabel(panel.label + (" (logarithmic)" if panel.log else ""))
        axes.set_title(panel.title)
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 13))
    return figure


def _said(rows: Iterable[Row], *parts: str) -> str:
    """Each subject with its figures, as in "E 1.10"; a part is a figure and its format."""
    figures = [part.partition(":")[::2] for part in parts]
    return ", ".join(
        f"{row.subject} " + " and ".join(format(row.number(name), spec) for name, spec in figures)
        for row in rows
    )


def _of(rows: Iterable[Row], name: str, value: float) -> list[Row]:
    return [row for row in rows if row[name] == value]


@drawn
def http(report: Report) -> Picture:
    """Throughput and the slow end of the latencies on one worker, by callers at once."""
    rows = report.rows["http"]
    panels = (
        _Panel("calls_per_second", "over HTTP, one worker", "calls per second"),
        _Panel("p95", "the slowest in twenty (p95)", "milliseconds a call", log=True),
    )
    figure = _lines(rows, "callers", panels, "callers at once", base=2)
    most = int(max(row.number("callers") for row in rows))
    said = _said(_of(rows, "callers", most), "calls_per_second:.0f")
    return picture(figure, f"Calls per second with {most} callers: {said}")


@drawn
def growth(report: Report) -> Picture:
    """What grows with the questions: the author's lines that run, and bytes of state on the wire."""
    rows = _of(report.rows["growth"], "answer_characters", ANSWER_CHARACTERS[0])
    panels = (
        _Panel("lines", "the author's lines that run", "lines in one call"),
        _Panel("entries", "entries into the author's functions", "entries in one call"),
        _Panel("total_state_bytes", "state on the wire", "bytes in one call, out and back"),
    )
    figure = _lines(rows, "questions", panels, "questions in one call")
    most = int(max(row.number("questions") for row in rows))
    said = _said(_of(rows, "questions", most), "lines", "total_state_bytes:,")
    return picture(figure, f"With {most} questions, lines and bytes: {said}")


@drawn
def parked(report: Report) -> Picture:
    """Parked calls of H: memory beside its baselines, and time, which is not to grow."""
    figure, (memory, time) = sheet(3.2, columns=2)
    rows = report.rows["parked"]
    sizes = [f"{row['calls']:,}" for row in rows]
    series = (
        ("bare task", PALE, [row.number("task_bytes") for row in rows]),
        ("parked call of H", look("H").colour, [row.number("call_bytes") for row in rows]),
        ("task with two memory streams", GREY, [row.number("streams_bytes") for row in rows]),
    )
    for turn, (label, colour, values) in enumerate(series):
        places = [number + (turn - 1) * 0.27 for number in range(len(sizes))]
        memory.bar(places, values, 0.25, color=colour, label=label, zorder=2)
        for place, value in zip(places, values, strict=True):
            memory.text(place, value, f"{value:,.0f}", ha="center", va="bottom", fontsize=6.5)
    memory.set_xticks(range(len(sizes)), sizes)
    memory.grid(axis="x", visible=False)
    memory.margins(y=0.35)
    memory.legend(loc="upper left")
    memory.set_ylabel("bytes each")
    memory.set_title("memory of a parked call")
    for verb, marker, line in zip(VERBS, "o^s", ("-", "--", ":"), strict=True):
        time.plot(
            [row.number("calls") for row in rows],
            [row.number(verb) for row in rows],
            marker=marker,
            color=look("H").colour,
            linestyle=line,
            label=verb,
        )
    time.set_xscale("log")
    time.set_ylim(bottom=0)
    time.set_ylabel("microseconds each, processor")
    time.set_title("time, by how many are parked")
    time.legend()
    for axes in (memory, time):
        axes.set_xlabel("parked calls")
    return picture(
        figure,
        "A parked call of H in bare tasks: "
        + ", ".join(f"{row['to_task']:.2f} of {row['calls']:,}" for row in rows),
    )


@drawn
def databases(report: Report) -> Picture:
    """What keeps its calls in a database: time of a round, and throughput until the queue grows."""
    figure, (time, rate) = sheet(3.4, columns=2, shares=(1, 1.2))
    rounds, ramp = report.rows["rounds"], report.rows["ramp"]
    names = [f"{row.subject}\n{str(row['database']).removesuffix('ql')}" for row in rounds]
    for number, row in enumerate(rounds):
        way, p50, p95 = look(row.subject), row.number("p50"), row.number("p95")
        time.bar([number], [p50], 0.7, color=way.colour, hatch=way.hatch, zorder=2)
        time.plot([number] * 2, [p50, p95], color=GREY, linewidth=1)
        time.text(number, p95, f"{p50:.1f}", ha="center", va="bottom", fontsize=7.5)
    time.set_xticks(range(len(names)), names, fontsize=6.5)
    time.grid(axis="x", visible=False)
    time.set_ylabel("milliseconds a round, line to the p95")
    time.set_title("one round; raw: the engine by hand")
    for option, database in dict.fromkeys((row.subject, row["database"]) for row in ramp):
        own = [row for row in ramp if (row.subject, row["database"]) == (option, database)]
        way = look(option)
        rate.plot(
            [row.number("callers") for row in own],
            [row.number("calls_per_second") for row in own],
            color=way.colour,
            marker=way.marker,
            linestyle="-" if database == "sqlite" else "--",
            label=f"{option}, {database}",
        )
    ticks = sorted({row.number("callers") for row in ramp})
    rate.set_xscale("log", base=2)
    rate.set_xticks(ticks, [str(tick) for tick in ticks])
    rate.set_ylim(bottom=0)
    rate.set_xlabel("callers at once")
    rate.set_ylabel("calls per second")
    rate.set_title("calls at once: flat where the queue grows")
    rate.legend()
    return picture(
        figure,
        "Milliseconds of a round: "
        + ", ".join(f"{row.subject} on {row['database']} {row['p50']:.1f}" for row in rounds),
    )


def held_against_targets(report: Report) -> Markdown:
    """Every target beside its figure."""
    return table(
        ("figure", "target", "measured", ""),
        (
            (
                each.name,
                each.says,
                f"{each.measured:.3f}",
                "met" if each.met else "**missed**",
            )
            for each in targets(report)
        ),
    )


def guards(report: Report) -> Markdown:
    """What the single-use guard adds to a round, on each store."""
    rows = report.rows["guards"]
    return table(
        ("the guard's store", "ms it adds to a round", "a call, to one without"),
        ((str(row["store"]), str(row["added_milliseconds"]), str(row["ratio"])) for row in rows),
    )


def left_out(report: Report) -> Markdown:
    """What was not measured."""
    lines: Iterable[str] = report.left_out or ["nothing"]
    return Markdown("Not measured: " + "; ".join(lines) + ".")
