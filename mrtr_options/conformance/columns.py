"""What the suite is run against: every style there is, found by its file's name, and three more.

A style's module has a `server()`, which makes a fresh server; `SCENARIOS`, where they are not the ones
of `scenarios.MRTR`; and `CANNOT`, the scenarios that the style cannot express, each with the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mrtr_options.conformance.scenarios import MRTR
from mrtr_options.tool.catalogue import all_options

OTHERS = ("careless", "shared", "client")
"""Modules that are no style, and have a column all the same."""


@dataclass(frozen=True)
class Column:
    """One thing that is tested.

    Attributes:
        name: A style's letter, or the module's name.
        module: The module in this package.
        scenarios: What it is tested with.
        cannot: Those of them that it cannot express, and why.
    """

    name: str
    module: str
    scenarios: tuple[str, ...]
    cannot: Mapping[str, str]


def styles() -> list[str]:
    """The modules of all styles whose option can be loaded here, in order."""
    found = sorted(path.stem for path in Path(__file__).parent.glob("style_?.py"))
    return [module for module in found if _letter(module) in all_options()]


def all_columns() -> list[Column]:
    """Every column, the styles first."""
    return [_column(module) for module in (*styles(), *OTHERS)]


def _letter(module: str) -> str:
    return module.removeprefix("style_").upper()


def _column(module: str) -> Column:
    loaded = importlib.import_module(f"{__package__}.{module}")
    return Column(
        _letter(module) if module.startswith("style_") else module,
        module,
        getattr(loaded, "SCENARIOS", MRTR),
        getattr(loaded, "CANNOT", {}),
    )
