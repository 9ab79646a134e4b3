"""Modules beside a stranger's file, which it imports as `python FILE` would.

While the file is loaded, its folder comes first in the search for modules. Later on it comes last,
for an import within a function. Each load imports these modules anew, so that two instances share
nothing, and a module of the same name in another folder is not taken for this one's.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_imported: set[str] = set()
"""The names of modules that earlier loads found beside their files."""


@contextmanager
def importing_from(*folders: Path) -> Generator[None]:
    """Let code in this block, which loads a file, import the modules in these folders."""
    _forget_imported()
    if not folders:
        yield
        return
    known = set(sys.modules)
    paths = [str(folder) for folder in folders]
    before = list(sys.path)
    sys.path[:0] = paths
    importlib.invalidate_caches()  # a module may have been written a moment ago
    try:
        yield
    finally:
        sys.path[:] = [*before, *(path for path in paths if path not in before)]
        new = (name for name in sys.modules.keys() - known if name.partition(".")[0] not in known)
        _imported.update(name for name in new if _is_beside(name, folders))


def _forget_imported() -> None:
    """Have the next import of a module beside a file run it again."""
    for name in _imported:
        sys.modules.pop(name, None)
    _imported.clear()


def _is_beside(name: str, folders: tuple[Path, ...]) -> bool:
    """Return whether a module, or its package, lies directly in one of the folders."""
    top = sys.modules.get(name.partition(".")[0])
    file = getattr(top, "__file__", None)
    places = [file] if file is not None else [*getattr(top, "__path__", ())]
    for place in places:
        path = Path(place)
        is_package = path.name == "__init__.py"
        if (path.parent.parent if is_package else path.parent) in folders:
            return True
    return False
