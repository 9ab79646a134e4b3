"""The files that `new` begins a tool with: a tool, written in one of several styles, and its test.

Each style is a whole file, so that `diff` shows what two of them differ in. One test is for all; it
says at its top what its tool does, and `files_of` changes that where a style does otherwise. The
files are laid out for a folder of their own, where the imports of this package stand among others.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

NAME = "own_tool"
"""The tool's name in the files of this folder."""

DEFAULT = "default"


@dataclass(frozen=True)
class Style:
    """A way to write the tool.

    Attributes:
        title: Its name, and what it needs.
        otherwise: The lines at the top of the test that are not so for this style.
    """

    title: str
    otherwise: tuple[str, ...] = ()


_UNTOLD, _EARLY = "REPEAT_IS_TOLD", "EARLY_IS_ASKED"

STYLES = {
    DEFAULT: Style("J in the guard, call named: a store that all instances share"),
    "j": Style("J, keyed replay: no store", (_UNTOLD,)),
    "f": Style("F, once: a round at a time, no store", (_UNTOLD, _EARLY)),
    "e": Style("E, MRTR native: a round at a time, no store", (_UNTOLD, _EARLY)),
    "g": Style("G, tool builder: named steps, no store", (_UNTOLD, _EARLY, "CHANGE_IS_ASKED")),
    "h": Style("H, continuation store: waits in its process", (_UNTOLD, "ANY_INSTANCE")),
}


def files_of(style: str, name: str) -> tuple[str, str]:
    """Return the text of a tool and of its test.

    Args:
        style: A key of `STYLES`.
        name: The tool's name; its file is called after it.
    """
    tool, test = _text_of(f"{style}.py"), _text_of(f"test_{NAME}.py")
    for line in STYLES[style].otherwise:
        test = test.replace(f"{line} = True", f"{line} = False")
    test = test.replace(f"{__name__}.{DEFAULT}", name)
    return tool.replace(NAME, name), test.replace(NAME, name)


def _text_of(file: str) -> str:
    return (files(__name__) / file).read_text(encoding="utf-8")
