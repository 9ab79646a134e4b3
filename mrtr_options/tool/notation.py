"""The notation of subjects: an option and the wrappers around it, as in `F+guard` or `F¹`.

`F+guard` is F in the single-use guard, `F+guard+named` is F in a guard that names its calls,
`F+legacy-shim` is F asked by old clients, too, `F+call-key` is F called by a client that names its
calls, `L+temporal` is L on Temporal. A mark is short for a word, as a keyboard can type it (`F1`,
`F^1`) or as a table shows it (`F¹`). `default` is the subject that README recommends.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from mrtr_options.names import nearest
from mrtr_options.tool.catalogue import CannotLoad, Option, option_named

SINGLE_USE = "single-use"
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
"""The subject that README recommends and `new` writes: keyed replay in a guard that names calls."""

ALIASES = {"guard": SINGLE_USE, "shim": LEGACY_SHIM, "key": CALL_KEY}
"""Other words for the same, as documents use them."""

MARKS = {SINGLE_USE: "¹", LEGACY_SHIM: "²", NAMED: "ⁿ", CALL_KEY: "ᵏ", TEMPORAL: "ᵀ"}
_TYPED = str.maketrans("12nkt", "¹²ⁿᵏᵀ")


def option_and_words(name: str) -> tuple[Option, tuple[str, ...]]:
    """Return the option that a subject's name names, and the words after it.

    Args:
        name: As in "E", "option_e_mrtr_native", "F+guard", "F¹", "F1k"; or the path of a file.

    Raises:
        CannotLoad: There is no such option or word.
    """
    if name == "default":
        name = DEFAULT
    option, *words = _spelled_out(name).split("+")
    words = [ALIASES.get(word, word) for word in words]
    if words and not option:
        raise CannotLoad(f"{name!r} names no option; put one before it, as in F¹ or F+guard")
    if len(set(words)) < len(words):
        raise CannotLoad(f"{name!r} names a wrapper twice; name each once")
    for word in words:
        if word not in KNOWN:
            raise CannotLoad(f"there is no wrapper {word!r}; {_suggestion(word)}")
    if NAMED in words and SINGLE_USE not in words:
        raise CannotLoad(
            f"{name!r}: it is the guard that names calls; write it as in F+guard+named"
        )
    return option_named(option), tuple(words)


def _spelled_out(name: str) -> str:
    """Return a name with the word for each mark in it."""
    typed = re.fullmatch(r"([A-Za-z])\^?([12nkt]+)", name)
    if typed is not None:
        name = typed[1] + typed[2].translate(_TYPED)
    for word, mark in MARKS.items():
        name = name.replace(mark, f"+{word}")
    return name


def _suggestion(word: str) -> str:
    known: Collection[str] = (*KNOWN, *ALIASES)
    return nearest(word, known) or f"there are {', '.join(KNOWN)}"
