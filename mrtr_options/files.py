"""Files that stay open while a process serves."""

import os
from pathlib import Path


def replaced(path: Path | str, opened: os.stat_result | None) -> str:
    """Return an error line if the file at `path` is no longer the one that was opened, else "".

    Args:
        path: The file's path.
        opened: The status of the file when it was opened; None before that.
    """
    if opened is None:
        return ""
    try:
        is_same = os.path.samestat(opened, os.stat(path))
    except FileNotFoundError:
        is_same = False
    if is_same:
        return ""
    return f"{path} was deleted or replaced under this process; restart the server"
