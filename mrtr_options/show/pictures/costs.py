"""What was measured, with the baselines and the targets in the same picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mrtr_options.cost.growth import Growth
from mrtr_options.cost.report import Report
from mrtr_options.cost.targets import TO_THE_FLOOR, targets
from mrtr_options.cost.timing import Spread
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

FLOOR = "floor"


@drawn
def calls(report: Report) -> Picture:
    """One call with one question in memory, as a ratio to the floor; L and K, on a database, apart."""
    quick = [each for each in report.calls if each.option != FLOOR and each.ratio.median < 6]
    slow = [each for each in report.calls if each.option != FLOOR and each.ratio.median >= 6]
    figure, axes = sheet(
        3.2,
        columns=2 if slow else 1,
        shares=(len(quick) + 1, len(slow) + 2) if slow else None,
    )
    names = [each.option for each in quick]
    _bars(axes[0], names, [each.ratio for each in quick])
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
        _bars(axes[1], [each.option for each in slow], [each.ratio for each in slow])
        axes[1].set_title("on a database (SQLite)")
        axes[1].set_xlabel("option")
    return picture(
        figure,
        "Time of one call in times of the floor's: "
        + ", ".join(f"{each.option} {each.ratio.median:.2f}" for each in (*quick, *slow)),
    )


def _bars(axes: Any, names: Sequence[str], ratios: Sequence[Spread]) -> None:
    for number, (name, ratio) in enumerate(zip(names, ratios, strict=True)):
        way = look(name)
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


@drawn
def questions(report: Report) -> Picture:
    """One call by the number of its questions: milliseconds, and as a ratio to the floor."""
    options = list(dict.fromkeys(each.option for each in report.questions))
    figure, (time, ratio) = sheet(3.6, columns=2)
    for option in options:
        own = [each for each in report.questions if each.option == option]
        counts = [each.questions for each in own]
        _line(time, option, counts, [each.milliseconds.median for each in own])
        _line(ratio, option, counts, [each.ratio.median for each in own])
    for axes in (time, ratio):
        _by_questions(axes, sorted({each.questions for each in report.questions}))
        axes.set_yscale("log")
    time.set_ylabel("milliseconds a call (logarithmic)")
    ratio.set_ylabel("times the floor (logarithmic)")
    time.set_title("one call by its questions, in memory")
    ratio.set_title("the same, to the floor")
    _legend(figure, time)
    last = [each for each in report.questions if each.questions == 10]
    return picture(
        figure,
        "Milliseconds of one call with ten questions: "
        + ", ".join(f"{each.option} {each.milliseconds.median:.1f}" for each in last),
    )


def _by_questions(axes: Any, counts: Sequence[int]) -> None:
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_xlabel("questions in one call")


def _legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 13))


@drawn
def http(report: Report) -> Picture:
    """Throughput and the slow end of the latencies on one worker, by callers at once."""
    options = list(dict.fromkeys(each.option for each in report.http))
    figure, (rate, slow) = sheet(3.6, columns=2)
    for option in options:
        own = [each for each in report.http if each.option == option]
        callers = [each.callers for each in own]
        _line(rate, option, callers, [each.calls_per_second for each in own])
        _line(slow, option, callers, [each.p95 for each in own])
    for axes in (rate, slow):
        axes.set_xscale("log", base=2)
        ticks = sorted({each.callers for each in report.http})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xlabel("callers at once")
    rate.set_ylim(bottom=0)
    rate.set_ylabel("calls per second")
    slow.set_yscale("log")
    slow.set_ylabel("milliseconds a call (logarithmic)")
    rate.set_title("over HTTP, one worker")
    slow.set_title("the slowest in twenty (p95)")
    _legend(figure, rate)
    most = max(each.callers for each in report.http)
    return picture(
        figure,
        f"Calls per second with {most} callers: "
        + ", ".join(
            f"{each.option} {each.calls_per_second:.0f}" for each in report.http if each.callers == most
        ),
    )


@drawn
def growth(report: Report) -> Picture:
    """What grows with the questions: the author's lines that run, and bytes of state on the wire."""
    shortest = min(each.answer_characters for each in report.growth)
    short = [each for each in report.growth if each.answer_characters == shortest]
    figure, axes = sheet(3.6, columns=3)
    kinds: tuple[tuple[str, str, Callable[[Growth], float]], ...] = (
        ("the author's lines that run", "lines in one call", lambda each: each.lines),
        ("entries into the author's functions", "entries in one call", lambda each: each.entries),
        ("state on the wire", "bytes in one call, out and back", lambda each: each.total_state_bytes),
    )
    for panel, (title, label, value) in zip(axes, kinds, strict=True):
        for option in dict.fromkeys(each.option for each in short):
            own = [each for each in short if each.option == option]
            _line(panel, option, [each.questions for each in own], [value(each) for each in own])
        _by_questions(panel, [1, 5, 10, 20])
        panel.set_title(title)
        panel.set_ylabel(label)
    _legend(figure, axes[0])
    most = max(each.questions for each in short)
    return picture(
        figure,
        f"With {most} questions, lines and bytes: "
        + ", ".join(
            f"{each.option} {each.lines} and {each.total_state_bytes:,}"
            for each in short
            if each.questions == most
        ),
    )


@drawn
def answers(report: Report) -> Picture:
    """Bytes of state on the wire against the length of the answers."""
    several = {each.questions for each in report.growth if each.answer_characters > 10}
    figure, (axes,) = sheet(3.0)
    found = [each for each in report.growth if each.questions in several]
    for option in dict.fromkeys(each.option for each in found):
        own = [each for each in found if each.option == option]
        lengths = [each.answer_characters for each in own]
        _line(axes, option, lengths, [each.total_state_bytes for each in own])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("characters in each answer (logarithmic)")
    axes.set_ylabel("bytes in one call (logarithmic)")
    axes.set_title(f"state on the wire, out and back, {', '.join(map(str, several))} questions")
    axes.legend(loc="upper left", ncols=2)
    longest = max(each.answer_characters for each in found)
    return picture(
        figure,
        f"Bytes with answers of {longest} characters: "
        + ", ".join(
            f"{each.option} {each.total_state_bytes:,}"
            for each in found
            if each.answer_characters == longest
        ),
    )


@drawn
def parked(report: Report) -> Picture:
    """Parked calls of H: memory beside its baselines, and time, which is not to grow."""
    figure, (memory, time) = sheet(3.2, columns=2)
    sizes = [f"{each.calls:,}" for each in report.parked]
    series = (
        ("bare task", PALE, [each.task_bytes for each in report.parked]),
        ("parked call of H", look("H").colour, [each.call_bytes for each in report.parked]),
        ("task with two memory streams", GREY, [each.streams_bytes for each in report.parked]),
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
    for (label, values), marker in zip(
        {
            "park": [each.park.median for each in report.parked],
            "resume": [each.resume.median for each in report.parked],
            "evict": [each.evict.median for each in report.parked],
        }.items(),
        "o^s",
        strict=True,
    ):
        time.plot(
            [each.calls for each in report.parked],
            values,
            marker=marker,
            color=look("H").colour,
            linestyle={"o": "-", "^": "--", "s": ":"}[marker],
            label=label,
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
        + ", ".join(f"{each.to_task:.2f} of {each.calls:,}" for each in report.parked),
    )


@drawn
def databases(report: Report) -> Picture:
    """What keeps its calls in a database: time of a round, and throughput until the queue grows."""
    figure, (time, rate) = sheet(3.4, columns=2, shares=(1, 1.2))
    names = [f"{each.option}\n{each.database.removesuffix('ql')}" for each in report.rounds]
    for number, each in enumerate(report.rounds):
        way = look(each.option)
        time.bar([number], [each.milliseconds], 0.7, color=way.colour, hatch=way.hatch, zorder=2)
        time.plot([number] * 2, [each.milliseconds, each.p95], color=GREY, linewidth=1)
        time.text(number, each.p95, f"{each.milliseconds:.1f}", ha="center", va="bottom", fontsize=7.5)
    time.set_xticks(range(len(names)), names, fontsize=6.5)
    time.grid(axis="x", visible=False)
    time.set_ylabel("milliseconds a round, line to the p95")
    time.set_title("one round; raw: the engine by hand")
    for option, database in dict.fromkeys((each.option, each.database) for each in report.ramp):
        own = [each for each in report.ramp if (each.option, each.database) == (option, database)]
        way = look(option)
        rate.plot(
            [each.callers for each in own],
            [each.calls_per_second for each in own],
            color=way.colour,
            marker=way.marker,
            linestyle="-" if database == "sqlite" else "--",
            label=f"{option}, {database}",
        )
    ticks = sorted({each.callers for each in report.ramp})
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
        + ", ".join(f"{e.option} on {e.database} {e.milliseconds:.1f}" for e in report.rounds),
    )


@drawn
def sizes(report: Report) -> Picture:
    """Lines to read: what the author types, and what an SDK would have to ship for it."""
    figure, (author, stand_in) = sheet(3.4, columns=2)
    names = [each.option for each in report.sizes]
    for number, each in enumerate(report.sizes):
        way = look(each.option)
        author.barh([number], [each.author_lines], 0.7, color=way.colour, hatch=way.hatch, zorder=2)
        author.plot(
            [each.changed_lines] * 2,
            [number - 0.35, number + 0.35],
            color=BLACK,
            linewidth=2,
            zorder=3,
            label=None if number else "lines changed against E",
        )
        stand_in.barh([number], [each.stand_in_lines], 0.7, color=way.colour, hatch=way.hatch, zorder=2)
        needs = ", ".join(each.dependencies)
        stand_in.text(
            each.stand_in_lines, number, f" {each.stand_in_lines}  {needs}", va="center", fontsize=7
        )
    for axes in (author, stand_in):
        axes.set_yticks(range(len(names)), names, weight="bold")
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("lines of code")
    author.legend(loc="lower right")
    stand_in.margins(x=0.5)
    author.set_title("the author types")
    stand_in.set_title("an SDK would ship, and what it installs")
    return picture(
        figure,
        "Lines of the author's and of the stand-in: "
        + ", ".join(f"{e.option} {e.author_lines} and {e.stand_in_lines}" for e in report.sizes),
    )


def held_against_targets(report: Report) -> Markdown:
    """Every target beside its figure."""
    return table(
        ("figure", "target", "measured", ""),
        (
            (
                each.name,
                f"{each.bound} {each.target:g} {each.unit}",
                f"{each.measured:.3f}",
                "met" if each.met else "**missed**",
            )
            for each in targets(report)
        ),
    )


def guards(report: Report) -> Markdown:
    """What the guard of single use adds to a round, on each store."""
    return table(
        ("the guard's store", "ms it adds to a round", "a call, to one without"),
        ((each.store, str(each.added_milliseconds), str(each.ratio)) for each in report.guards),
    )


def left_out(report: Report) -> Markdown:
    """What was not measured."""
    lines: Iterable[str] = report.left_out or ["nothing"]
    return Markdown("Not measured: " + "; ".join(lines) + ".")
