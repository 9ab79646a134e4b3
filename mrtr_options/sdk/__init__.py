"""The stand-ins: what an SDK would have to ship for each option. They know `mcp` only.

K's and L's are built on DBOS, which the extra `durable` brings. Without it, a program that imports them
ends in one line that says so.
"""

import sys
from importlib.util import find_spec
from types import TracebackType


def _name_the_extra(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if isinstance(error, ModuleNotFoundError) and error.name == "dbos":
        need = "this needs the extra 'durable': pip install 'mrtr-options[durable]'"
        print(f"mrtr-options: {need}", file=sys.stderr)
        sys.exit(2)
    sys.__excepthook__(kind, error, trace)


if find_spec("dbos") is None:
    sys.excepthook = _name_the_extra
