"""Run `examples/basic.py`: a tool that asks its user, in the protocol's own words."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from mrtr_options.terminal import refuse

CHECKOUT = Path(__file__).parents[1]
"""The folder with this package and, in a checkout, with the examples."""


def run_example(name: str) -> None:
    """Run an example as a program, or say where it is."""
    if not (CHECKOUT / "examples" / f"{name}.py").is_file():
        refuse(
            f"examples/{name}.py is in the repository and not in the installed package; clone the"
            f" repository, and run python -m examples.{name} in it"
        )
    sys.path.insert(0, str(CHECKOUT))
    runpy.run_module(f"examples.{name}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    run_example("basic")
