"""Every serious way to write a multi-round MCP tool, side by side and measured."""

from importlib.util import find_spec

if find_spec("mcp") is None:
    # With the package's own name in it, `python -m` prints this error as one line.
    raise ModuleNotFoundError(
        "the environment is not active: source .venv/bin/activate (make demo makes it)",
        name=__name__,
    )
