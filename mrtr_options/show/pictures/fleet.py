"""The capacity page: what a fleet needs, on paper, with the think time of people as the parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mrtr_options.cost.capacity import (
    OPEN_CONVERSATIONS,
    Assumptions,
    Figures,
    capacity,
    in_client,
    on_postgres,
    sticky,
)
from mrtr_options.show.pictures.style import BLACK, Markdown, Picture, drawn, look, picture, sheet
from mrtr_options.show.pictures.tables import table

THINK_SECONDS = (5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
_NAMES = {5.0: "5 s", 60.0: "1 min", 900.0: "15 min", 3600.0: "1 h", 86400.0: "1 day"}


@drawn
def curves(measured: Figures, assumed: Assumptions) -> Picture:
    """How many of each machine, by how long people think, for each number of open conversations."""
    kinds: dict[str, tuple[str, Callable[[int, Assumptions], int]]] = {
        "H": ("instances, sticky routing", lambda n, a: sticky(n, measured, a).instances),
        "E": ("instances, state in the client", lambda n, a: in_client(n, measured, a).instances),
        "L": ("databases of the measured kind", lambda n, a: on_postgres(n, measured, a).databases),
    }
    figure, axes = sheet(3.8, columns=len(kinds), same_y=True)
    for panel, (letter, (title, needed)) in zip(axes, kinds.items(), strict=True):
        for number, line in zip(OPEN_CONVERSATIONS, ("-", "--", ":"), strict=True):
            panel.plot(
                THINK_SECONDS,
                [needed(number, replace(assumed, think_seconds=each)) for each in THINK_SECONDS],
                color=look(letter).colour,
                marker=look(letter).marker,
                markersize=4,
                linestyle=line,
                label=f"{number:,} open",
            )
        panel.axvline(assumed.think_seconds, color=BLACK, linewidth=0.8, linestyle=":")
        panel.set_title(f"{letter}: {title}")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xticks(list(_NAMES), list(_NAMES.values()))
        panel.minorticks_off()
        panel.set_xlabel("think time for one question")
        panel.legend(loc="upper right")
    axes[0].set_ylabel("how many (logarithmic)")
    return picture(
        figure,
        f"How many are needed where people think {assumed.think_seconds:g} s: "
        + "; ".join(
            f"{letter} {', '.join(f'{needed(n, assumed):,} for {n:,}' for n in OPEN_CONVERSATIONS)}"
            for letter, (_, needed) in kinds.items()
        ),
    )


def assumptions(measured: Figures, assumed: Assumptions) -> Markdown:
    """What is measured and what is assumed."""
    return table(
        ("", "figure", ""),
        (
            ("assumed", f"{assumed.think_seconds:g} s", "a person takes over one question"),
            ("assumed", f"{assumed.questions_per_call:g}", "questions in a call"),
            (
                "assumed",
                f"{assumed.instance_cores} workers, {_bytes(assumed.instance_bytes)}",
                "of one instance, for parked calls",
            ),
            ("assumed", f"{assumed.utilisation:.0%}", "of what a machine can do is planned for"),
            ("measured", f"{measured.parked_bytes:,.0f} bytes", "of a parked call of H"),
            ("measured", f"{measured.rounds_per_second:,.0f} a second", "rounds of H on one worker"),
            (
                "measured",
                f"{measured.stateless_rounds_per_second:,.0f} a second",
                "rounds of E on one worker",
            ),
            ("measured", f"{measured.state_bytes:,.0f} bytes", "of a state of E"),
            (
                "measured",
                f"{measured.rows:.0f} rows, {measured.row_bytes:,.0f} bytes",
                "of a parked call of L on PostgreSQL",
            ),
            (
                "measured",
                f"{measured.database_rounds_per_second:,.0f} a second",
                "rounds of L on one PostgreSQL, from one process",
            ),
        ),
    )


def needs(measured: Figures, assumed: Assumptions) -> Markdown:
    """What each way of keeping a call needs, for each number of open conversations."""
    return table(
        ("open", "rounds a second", "H, sticky", "E, in the client", "L on PostgreSQL"),
        (
            (
                f"{number:,}",
                f"{h.rounds_per_second:,.0f}",
                f"{h.instances:,} instances (bound by {h.bound_by}), {_bytes(h.memory_bytes)}",
                f"{e.instances:,} instances, {_bytes(e.wire_bytes_per_second)} of state a second",
                f"{one.databases:,} databases, {one.rows:,.0f} rows, {_bytes(one.disk_bytes)}",
            )
            for number, h, e, one in capacity(measured, assumed)
        ),
    )


def limits(measured: Figures, assumed: Assumptions) -> Markdown:
    """Where each option stops being the right one."""
    think = f"at {assumed.think_seconds:g} s"
    lines = ["Where each stops being the right one:", ""]
    for number, h, e, durable in capacity(measured, assumed):
        wire = _bytes(e.wire_bytes_per_second)
        shortest = _duration(durable.shortest_think_seconds)
        lines.append(
            f"- **{number:,} open.** H: an instance that ends takes {h.lost_with_one:,.0f} calls with"
            f" it, at every deploy. E: {wire} of state a second on the wire, and no call to lose. L: one"
            f" database does where people think for {shortest} or longer"
            + ("." if durable.databases == 1 else f"; {think} it takes {durable.databases:,} of them.")
        )
    lines += [
        "",
        "More than one database is a sharded fleet, which this project does not build. L's figure is of"
        " one server process on the machine that the database runs on too: take it for the shape, and"
        " measure your own before buying anything.",
    ]
    return Markdown("\n".join(lines))


def _bytes(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:,.0f} {unit}" if number >= 10 or unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} TiB"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
