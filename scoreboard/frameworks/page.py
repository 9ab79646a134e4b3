"""The kept results of frameworks in words: a terminal's table and the page's parts.

Knows the kept results and the frameworks' folders; nothing of any library.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from mrtr_options.review.judge.anomalies import ANOMALIES, WORDS
from mrtr_options.terminal import markdown
from scoreboard.board import Scoreboard, date_of
from scoreboard.frameworks.cases import ATTACKS, CASES
from scoreboard.frameworks.frameworks import Framework, Variant, frameworks
from scoreboard.frameworks.play import NOT_THE_END, Played, Reviewed
from scoreboard.servers.page import folded, link

Row = tuple[Framework, Variant, Reviewed]

WORDS_OF = {case.name: case.words for case in CASES}
"""The name of each case in the tables."""


def rows(board: Scoreboard) -> list[Row]:
    """Return the results, in the order of the frameworks."""
    found: list[Row] = []
    for framework in frameworks().values():
        kept = board.frameworks.get(framework.name)
        results = {} if kept is None else kept.variants
        found += [
            (framework, variant, results[variant.name])
            for variant in framework.variants
            if variant.name in results
        ]
    return found


def reasons(board: Scoreboard) -> list[str]:
    """Return a line for each framework that could not be built or started, with the reason."""
    kept = ((each, board.frameworks.get(name)) for name, each in frameworks().items())
    return [f"{each.title}: {found.cannot}" for each, found in kept if found and found.cannot]


# --- words --------------------------------------------------------------------------------------


def name_of(framework: Framework, variant: Variant) -> str:
    """Return the name of a row, as in "LangGraph, one node"."""
    return f"{framework.title}, {variant.name}"


def _link(framework: Framework, variant: Variant, words: str = "") -> str:
    return link(name_of(framework, variant), words)


def least(found: Reviewed, anomaly: str) -> str:
    """Return the first case that shows an anomaly; empty if none does.

    Attacks are left out: they have a table of their own.
    """
    plain = ((name, played) for name, played in found.cases.items() if name not in ATTACKS)
    return next((name for name, played in plain if anomaly in shown(played)), "")


FATES = {
    "limitation": "harness limitation",
    "readable": "readable afterwards",
    "parked": "parked",
    "refused": "refused, still open",
    "lost": "lost",
    "unread": "error, not read afterwards",
    "question": "question open",
}
"""The fate of a call whose client has no result, in words."""

OURS = (
    "the workflow does not go on",
    "the run ends without a word",
    "There is no '",
    "not enough values",
)
"""Error texts of our own programs in older runs."""


def fate(played: Played) -> str:
    """Return the fate of a call; for a run of an older form, as much as is certain."""
    if played.fate is not None:
        return played.fate
    if played.end == "error":
        return "limitation" if any(text in played.says for text in OURS) else "unread"
    return played.end


def shown(played: Played) -> list[str]:
    """Return the anomalies of a run that its framework answers for."""
    if fate(played) == "limitation":
        return []
    left_out = NOT_THE_END if fate(played) not in ("result", "question", "lost") else set[str]()
    return [name for name in played.shown if name not in left_out]


def outcome(played: Played | None) -> str:
    """Return how a case ended: audits/bills, and the fate of the call; for a race, how often."""
    if played is None:
        return ""
    what = FATES.get(fate(played), "")
    if fate(played) == "limitation":
        return what
    counts = f"{played.audits}/{played.bills}"
    if played.times:
        total = sum(played.times.values())
        counts = ", ".join(f"{each} in {k} of {total}" for each, k in played.times.items())
    billed = ", billed what was no choice" if any(map(_bills_no_place, played.history)) else ""
    return f"{counts} {what}".strip() + billed


def _bills_no_place(line: str) -> bool:
    """Return whether a line of a history bills the answer to another question."""
    return line.strip() in ("effect: bill of 'imperial'", "effect: bill of 'yes'")


def said(played: Played, besides: Collection[str] = ()) -> str:
    """Return the outcome, the anomalies besides some, and whether an attack succeeded."""
    words = [WORDS[each] for each in shown(played) if each not in besides]
    if played.taken:
        words.append("taken")
    return ": ".join(filter(None, (outcome(played), ", ".join(words))))


def attack(played: Played | None) -> str:
    """Return whether an attack succeeded, in a word."""
    if played is None or played.taken is None:
        return ""
    if fate(played) == "limitation":
        return FATES["limitation"]
    if played.taken:
        return "**taken**"
    return "refused" if played.end == "error" else "not taken"


# --- tables -------------------------------------------------------------------------------------


def shown_anomalies(board: Scoreboard) -> list[str]:
    """Return the anomalies that any framework shows, money first."""
    return [
        each.name for each in ANOMALIES if any(least(found, each.name) for *_, found in rows(board))
    ]


def by_anomaly(board: Scoreboard) -> str:
    """Return a table with a row for each way to write the tool: the least case of each anomaly."""
    names = shown_anomalies(board)
    lines: list[Sequence[str]] = []
    for framework, variant, found in rows(board):
        cases = (least(found, name) for name in names)
        cells = (_link(framework, variant, WORDS_OF[case]) if case else "" for case in cases)
        lines.append((_link(framework, variant), *cells))
    return markdown(("framework", *(WORDS[each] for each in names)), lines)


def by_case(board: Scoreboard) -> str:
    """Return a table with a row for each way to write the tool: the outcome of each case."""
    plain = [case for case in CASES if case.name not in ATTACKS]
    lines = (
        (_link(framework, variant), *(outcome(found.cases.get(case.name)) for case in plain))
        for framework, variant, found in rows(board)
    )
    return markdown(("framework", *(case.words for case in plain)), lines)


def pauses(board: Scoreboard) -> str:
    """Return a table of the data that the caller holds, and of the attacks on them."""
    lines = (
        (
            _link(framework, variant),
            variant.pause,
            *(attack(found.cases.get(name)) for name in ATTACKS),
        )
        for framework, variant, found in rows(board)
    )
    return markdown(("framework", "the caller holds", *(WORDS_OF[name] for name in ATTACKS)), lines)


def advice(board: Scoreboard) -> str:
    """Return a table of the documentation on effects above a pause, and the author's remedies."""
    lines: list[Sequence[str]] = []
    for framework, variant, _ in rows(board):
        quote = framework.quote
        says = f'"{quote.says}"' if quote.says else "does not mention them"
        first = variant is framework.variants[0]
        says = f"{says} ([{quote.date}]({quote.address}))" if first else ""
        lines.append((_link(framework, variant), says, variant.author))
    heads = ("framework", "its documentation on effects above a pause", "an author today")
    return markdown(heads, lines)


def versions(board: Scoreboard) -> str:
    """Return a table of the builds, with sources and times; the last row has the sums."""
    lines: list[Sequence[str]] = []
    known = [board.frameworks[name] for name in frameworks() if name in board.frameworks]
    built = [kept for kept in known if kept.variants]
    every = [each for kept in built for each in kept.variants.values()]
    for framework in frameworks().values():
        kept = board.frameworks.get(framework.name)
        if kept is None:
            continue
        ran = [*kept.variants.values()]
        took = (
            f"{kept.build_seconds} s, {sum(each.seconds for each in ran)} s" if ran else "not built"
        )
        sizes = ", ".join(str(each.lines) for each in ran)
        lines.append(
            (
                framework.title,
                framework.language,
                f"`{framework.package}` {framework.version}",
                f"[page]({framework.documentation})",
                sizes,
                str(sum(each.processes for each in ran)),
                took,
                date_of(framework, kept, max((each.date for each in ran), default="")),
                framework.note,
            )
        )
    took = f"{sum(each.build_seconds for each in built)} s, {sum(each.seconds for each in every)} s"
    lines.append(("all", "", "", "", "", str(sum(each.processes for each in every)), took, "", ""))
    heads = ("framework", "language", "package", "written after", "lines", "processes")
    return markdown((*heads, "build, cases", "date", "note"), lines)


def not_built(board: Scoreboard) -> str:
    """Return a list of the frameworks that could not be built or started."""
    return "\n".join(f"- {line}" for line in reasons(board)) or "Each was built and started."


def cases(board: Scoreboard) -> str:
    """Return a table of the cases, in words and in a sentence."""
    return markdown(("case", "what happens"), ((each.words, each.scenario.why) for each in CASES))


def details(board: Scoreboard) -> str:
    """Return the histories behind the cells, with a section for each way to write the tool."""
    return "\n\n".join(part for row in rows(board) for part in _section(*row))


def _section(framework: Framework, variant: Variant, found: Reviewed) -> Iterator[str]:
    yield f"### {name_of(framework, variant)}"
    ran = f"{len(found.cases)} cases in {found.processes} processes"
    yield f"`{framework.package}` {found.version}, {found.date}: {ran}."
    by_story: dict[str, list[str]] = {}
    for each in ANOMALIES:
        case = least(found, each.name)
        if case:
            by_story.setdefault(case, []).append(each.words)
    for name in ATTACKS:
        played = found.cases.get(name)
        if played is not None and played.taken:
            by_story.setdefault(name, []).append("taken")
    for case, words in by_story.items():
        yield folded(f"{WORDS_OF[case]}: {', '.join(words)}", found.cases[case].history)
    if not by_story:
        yield folded(WORDS_OF["clean"], found.cases["clean"].history)


# --- the terminal -------------------------------------------------------------------------------


def table(board: Scoreboard, names: Sequence[str]) -> Table:
    """Return a table of the anomalies of some frameworks, by name."""
    columns = ("duplicate bill", "orphan bill", "ignored answer", "stale answer", "lost call")
    found = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("framework", *(WORDS[each] for each in columns)):
        found.add_column(column, overflow="fold")
    for framework, variant, seen in rows(board):
        if framework.name in names:
            cells = (least(seen, each) for each in columns)
            found.add_row(name_of(framework, variant), *(WORDS_OF.get(each, "") for each in cells))
    return found
