"""What holds for every program of this package: it needs the environment, Ctrl-C ends it quietly even
while it imports, and a terminal without UTF-8 shows ASCII.

Knows the standard library, and how a program refuses.
"""

from __future__ import annotations

import codecs
import sys
from importlib.util import find_spec
from types import TracebackType

from mrtr_options import refuse

ASCII = {"¹": "^1", "²": "^2", "ᵏ": "^k", "≤": "<=", "×": "x", "…": "...", "—": "-", "°": ""}
"""What replaces a character that an encoding lacks; a question mark replaces every other."""


def begin() -> None:
    """Refuse to start without the environment; else make ready what the program cannot do itself."""
    if find_spec("mcp") is None:
        refuse("the environment is not active: source .venv/bin/activate (make demo makes it)")
    sys.excepthook = _end_quietly
    codecs.register_error("mrtr-ascii", _in_ascii)
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="mrtr-ascii")


def _end_quietly(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    # While it imports; later it is caught. pydantic, building a model, makes an error of its own of it.
    if issubclass(kind, KeyboardInterrupt) or "KeyboardInterrupt" in str(error):
        sys.exit(130)
    sys.__excepthook__(kind, error, trace)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(ASCII.get(each, "?") for each in lacking), error.end
