"""The names of subjects: an option and the wrappers around it.

Commands and JSON say `F+guard`: F in the single-use guard. `F+guard+named` is F in a guard that
names its calls, `F+legacy-shim` is F with old clients asked, too, `F+call-key` is F called by a
client that names its calls, `L+temporal` is L on Temporal. `default` is the subject that README
recommends. Texts say *F, guarded* (`in_text`) or *once (F), guarded* (`titled`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mrtr_options.names import nearest
from mrtr_options.tool.catalogue import CannotLoad, Option, option_named

SINGLE_USE = "guard"
LEGACY_SHIM = "legacy-shim"
ASK_AGAIN = "ask-again"
CALL_KEY = "call-key"
"""No wrapper: the client sends a call key, for an option or a guard that honours it."""
NAMED = "named"
"""No wrapper: the guard names a call by its caller and its location (`single_use(call=...)`)."""
TEMPORAL = "temporal"
"""No wrapper: the calls of a durable option are kept by Temporal."""

WRAPPERS = (SINGLE_USE, LEGACY_SHIM, ASK_AGAIN)
KNOWN = (*WRAPPERS, NAMED, CALL_KEY, TEMPORAL)

DEFAULT = f"J+{SINGLE_USE}+{NAMED}"
"""What README recommends, as a modern client sees it: keyed replay in a guard that names calls."""

DEFAULT_FOR_ALL = f"{DEFAULT}+{LEGACY_SHIM}"
"""The subject `default`, as `new` writes it: old clients are asked, too. No other one notices."""

ALIASES = {"single-use": SINGLE_USE, "shim": LEGACY_SHIM, "key": CALL_KEY}
"""Other words for the same."""

_MARKS = {
    "1": SINGLE_USE, "2": LEGACY_SHIM, "n": NAMED, "k": CALL_KEY, "t": TEMPORAL,
    "\N{SUPERSCRIPT ONE}": SINGLE_USE,
    "\N{SUPERSCRIPT TWO}": LEGACY_SHIM,
    "\N{SUPERSCRIPT LATIN SMALL LETTER N}": NAMED,
    "\N{MODIFIER LETTER SMALL K}": CALL_KEY,
    "\N{MODIFIER LETTER CAPITAL T}": TEMPORAL,
}  # fmt: skip
"""The marks that earlier versions printed after a letter; commands still understand them."""


def in_text(name: str) -> str:
    """Return a subject's name as texts have it: "J, guarded and named", "A around F"."""
    option, *words = name.split("+")
    return _in_words(option, words)


def titled(name: str) -> str:
    """Return a subject's name with the option's before its letter: "once (F), guarded"."""
    option, words = option_and_words(name)
    return _in_words(_title_of(option), words, _title_of(option_named("A")))


def _title_of(option: Option) -> str:
    written = re.match(r"Option \w, (.*?):", option.title)
    return f"{written[1] if written else option.name} ({option.letter})"


def _in_words(option: str, words: Sequence[str], shim: str = "A") -> str:
    """Return an option, or several, with the words for what is around it."""
    said = f"{shim} around {option}" if LEGACY_SHIM in words else option
    if TEMPORAL in words:
        said += " on Temporal"
    if SINGLE_USE in words:
        said += ", guarded and named" if NAMED in words else ", guarded"
    if ASK_AGAIN in words:
        said += ", asking again"
    if CALL_KEY in words:
        said += ", with a call key" if SINGLE_USE in words else " with a call key"
    return said


def list_in_text(names: Iterable[str]) -> str:
    """Return the names of subjects in one text: "E, J; F, J, guarded"."""
    around: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        option, *words = name.split("+")
        around.setdefault(tuple(words), []).append(option)
    return "; ".join(_in_words(", ".join(options), words) for words, options in around.items())


def as_in(subjects: Sequence[str]) -> str:
    """Name subjects in parentheses; return "" for none."""
    return f" (as in {list_in_text(subjects)})" if subjects else ""


def option_and_words(name: str) -> tuple[Option, tuple[str, ...]]:
    """Return the option that a subject's name names, and the words after it.

    Args:
        name: As in "E", "option_e_mrtr_native", "F+guard", "F1k"; or the path of a file.

    Raises:
        CannotLoad: There is no such option or word.
    """
    if name == "default":
        name = DEFAULT_FOR_ALL
    option, *words = _spelled_out(name).split("+")
    words = [ALIASES.get(word, word) for word in words]
    if words and not option:
        raise CannotLoad(f"{name!r} names no option; put one before it, as in F+guard")
    if len(set(words)) < len(words):
        raise CannotLoad(f"{name!r} names a wrapper twice; name each once")
    for word in words:
        if word not in KNOWN:
            near = nearest(word, (*KNOWN, *ALIASES)) or f"there are {', '.join(KNOWN)}"
            raise CannotLoad(f"there is no wrapper {word!r}; {near}")
    if NAMED in words and SINGLE_USE not in words:
        raise CannotLoad(
            f"{name!r}: it is the guard that names calls; write it as in F+guard+named"
        )
    return option_named(option), tuple(words)


def _spelled_out(name: str) -> str:
    """Return a name with the word for each mark in it."""
    typed = re.fullmatch(rf"([A-Za-z])\^?([{''.join(_MARKS)}]+)", name)
    if typed is None:
        return name
    return "+".join((typed[1], *(_MARKS[mark] for mark in typed[2])))
