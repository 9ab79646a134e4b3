"""The kept results of servers in words: the terminal's table, and the failures.

Knows the kept results and the servers' folders; nothing of any library.
"""

from __future__ import annotations

from mrtr_options.review.bench.faults import in_words, parse
from mrtr_options.review.explore.counterexamples import weakest_of
from mrtr_options.review.judge.anomalies import in_order
from mrtr_options.review.judge.contract import RULES
from scoreboard.board import Scoreboard, kept_of
from scoreboard.board import not_built as unbuilt
from scoreboard.libraries import about as about_libraries
from scoreboard.rows import Cell, Row, Runs, slug
from scoreboard.servers.peers import Peer, Variant, missing, peers
from scoreboard.servers.play import OLD_CALLS, Broken, Life, Old, ServerReview, Tried

NOTHING_CHARGED = "no call with two questions is charged"

OUR_OWN = ("states-are-short",)
"""Rules of this project that no specification has: a state of at most 16 KiB."""

OF_OLD_CLIENTS = {
    "asks-only-who-can-be-asked": "2025-11-25: servers MUST NOT send a mode that the client does"
    " not support",
}
"""The sentences of 2025-11-25 for rules whose `source` is of 2026-07-28."""

STATE_RULES = {
    "state-is-genuine": "made up or altered",
    "state-is-bound-to-its-call": "of a call with other arguments",
}
"""Rules about the state that can be checked from outside, and the heads of their columns."""

Result = tuple[Peer, Variant, ServerReview]


def rows(board: Scoreboard) -> list[Result]:
    """Return the results, in the order of the servers, default settings first."""
    return [
        (peer, variant, _with_own_run(kept.variants[variant.name]))
        for peer, kept in kept_of(peers(), board.servers)
        for variant in peer.variants
        if variant.name in kept.variants
    ]


def _with_own_run(found: ServerReview) -> ServerReview:
    """Return a review that also has what the run of a rewritten state broke.

    The review leaves out a state that was issued to another of its calls; in the run there is none.
    """
    run = found.cells.get("state-rewritten")
    rule = "state-is-genuine"
    if run is None or not run.bills or any(each.rule == rule for each in found.breaks):
        return found
    broken = Broken(rule=rule, allowed="", came="", story=run.history)
    return found.model_copy(update={"breaks": [broken, *found.breaks]})


def played(board: Scoreboard) -> list[Result]:
    """Return the results of the servers that could be started."""
    return [row for row in rows(board) if not row[2].cannot]


def reasons(board: Scoreboard) -> list[str]:
    """Return a line for each server that could not be built or started, with the reason."""
    return unbuilt(peers(), board.servers) + [
        f"{peer.title}, {variant.name}: {found.cannot}"
        for peer, variant, found in rows(board)
        if found.cannot
    ]


# --- words --------------------------------------------------------------------------------------


def least(tried: Tried, anomaly: str) -> str:
    """Return the weakest faults that show an anomaly; empty if it was not seen."""
    sets = tried.shown.get(anomaly)
    if sets is None:
        return ""
    weakest = weakest_of(sets)
    if not weakest:
        return in_words(())
    return f"{in_words(parse(weakest))} (`{weakest}`)"


def departures(found: ServerReview) -> str:
    """Return the rules that it departs from, which do not count in the verdict.

    A limit of this project alone, which no specification has, is left out.
    """
    return (
        ", ".join(f"`{each.rule}`" for each in found.departs if each.rule not in OUR_OWN) or "none"
    )


def musts(found: ServerReview) -> str:
    """Return the sentences with MUST that it breaks, and the other rules that it breaks."""
    return "; ".join(map(_sentence, found.breaks)) or "none"


def _sentence(broken: Broken) -> str:
    """Return the sentence that a run breaks, of the specification that its client speaks."""
    rule = RULES[broken.rule]
    is_of_old_client = "of the old era" in broken.story[0]
    if is_of_old_client and broken.rule in OF_OLD_CLIENTS:
        return OF_OLD_CLIENTS[broken.rule]
    return rule.source or f"the contract: {rule.says}"


def _charges_nobody(found: ServerReview) -> bool:
    """Return whether a call with two questions succeeds without a charge."""
    call = found.old.get("clean-springfield")
    return call is not None and call.outcome == "completed" and not call.says and not call.bills


def old_client(call: Old | None) -> str:
    """Return how a call of an old client ends, in words."""
    if call is None:
        return "not spoken"
    words = {"completed": "result", "tool_error": "`isError`"}.get(call.outcome, call.outcome)
    if call.outcome == "completed" and not call.says:
        words = "empty result"
    asked = f", {call.asked} asked" if call.asked else ""
    return f"{words}{asked}, {call.audits}/{call.bills}"


def life(found: ServerReview) -> str:
    """Return the largest age of a state, in words."""
    match found.life:
        case None:
            return "not measured"
        case Life(good=good, refused=None):
            return f"over {good} s"
        case Life(good=good, refused=refused):
            return f"{good} to {refused} s"


# --- tables -------------------------------------------------------------------------------------


def failure(found: ServerReview, tried: Tried, anomaly: str) -> str:
    """Return the weakest faults that show an anomaly; for charges, whether there are any."""
    if anomaly == "charged twice" and _charges_nobody(found):
        return NOTHING_CHARGED
    return least(tried, anomaly)


def shown_anomalies(board: Scoreboard) -> list[str]:
    """Return the anomalies that any server shows, money first."""
    tried = (each for _, _, found in played(board) for each in found.tried)
    shown = {name for each in tried for name in each.shown}
    return in_order(shown)


def about(board: Scoreboard) -> Runs:
    """Return what is known of each server, by its address, a line for each thing."""
    forms = [(peer, _setting(variant, found)) for peer, variant, found in played(board)]
    return about_libraries("servers", peers(), board.servers, forms)


def _setting(variant: Variant, found: ServerReview) -> str:
    """Return what is known of a server with some settings."""
    one, two = (old_client(found.old.get(name)) for name in OLD_CALLS)
    return (
        f"{variant.words} ({variant.name}): state protected by {variant.state}, key:"
        f" {variant.keys}; {_state(found)}; an old client with one question: {one}, with two:"
        f" {two}; breaks: {musts(found)}; departs: {departures(found)}; an author today:"
        f" {variant.author}"
    )


def _state(found: ServerReview) -> str:
    """Return what became of attacks on the state, how old it may get, and its length."""
    if not found.longest_state:
        return "no state"
    broken = {each.rule for each in (*found.breaks, *found.departs)}
    seen = (
        f"{words}: {'taken' if rule in broken else 'refused'}"
        for rule, words in STATE_RULES.items()
    )
    return f"a state {', '.join(seen)}, good for {life(found)}, {found.longest_state} bytes at most"


def not_built(board: Scoreboard) -> str:
    """Return a list of the servers that could not be built or started."""
    tried = (
        f"{each.title}: `{each.command}` says: {each.says} ({each.date})" for each in missing()
    )
    return "\n".join(f"- {line}" for line in (*reasons(board), *tried))


def failure_rows(board: Scoreboard, policy: str, fleet: str = "sticky") -> list[Row]:
    """Return a row for each server under some routing, with the least of each anomaly."""
    names = shown_anomalies(board)
    return [
        Row(
            id=failures_at(peer, variant),
            title=peer.title,
            form=variant.words,
            version=found.version,
            date=found.date,
            cells={slug(name): Cell(says=failure(found, tried, name)) for name in names},
        )
        for peer, variant, found in played(board)
        for tried in found.tried
        if (tried.fleet, tried.policy) == (fleet, policy)
    ]


def failures_at(peer: Peer, variant: Variant) -> str:
    """Return the address of a server's failures with some settings."""
    return f"servers/{peer.name}/{variant.name}"


def failures(board: Scoreboard) -> Runs:
    """Return the smallest run of each anomaly and of each broken rule, and the probes."""
    found: Runs = {}
    for peer, variant, reviewed in played(board):
        broken = {each.rule: each.story for each in (*reviewed.breaks, *reviewed.departs)}
        runs = reviewed.histories | broken | reviewed.probes
        found |= {f"{failures_at(peer, variant)}/{slug(name)}": run for name, run in runs.items()}
    return found
