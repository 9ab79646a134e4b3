"""Every name of `sdk` with its signature and its docstring, for docs/API.md. Knows `sdk`'s face."""

from __future__ import annotations

import inspect
import re
from typing import Any

from mrtr_options import sdk

_ALIAS = re.compile(r"\b(?:collections|mcp|mcp_types|typing)\.(?:\w+\.)*")
"""The modules in the representation of a type."""

INTERNAL = frozenset(
    ("register", "perform", "caller", "begun", "rounds", "result_of", "methods", "outcome", "deliver")
)
"""Methods of the face's classes that are for the other modules of `sdk`."""


def api() -> str:
    """A section for each name, in the order of the alphabet."""
    return "\n\n".join(_section(name, getattr(sdk, name)) for name in sorted(sdk.__all__, key=str.lower))


def _section(name: str, value: Any) -> str:
    told = [f"### {name}"]
    if inspect.isclass(value) or inspect.isfunction(value):
        told.append(f"```text\n{name}{_signature(value)}\n```")
    if (value_of := getattr(value, "__module__", "")).startswith("mrtr_options"):
        told.append(f"```text\n{inspect.getdoc(value)}\n```")
        for method, each in _methods(value):
            told.append(f"```text\n.{method}{_signature(each)}\n\n{inspect.getdoc(each)}\n```")
    elif inspect.isclass(value):
        told.append(f"From the SDK: `{value_of}`.")
    else:
        told.append(f"`{_ALIAS.sub('', repr(value))}`")
    return "\n\n".join(told)


def _signature(value: Any) -> str:
    """Its parameters without annotations, which take more room than they tell."""
    try:
        signature = inspect.signature(value)
    except ValueError:
        return "(...)"
    plain = [
        each.replace(annotation=inspect.Parameter.empty, default=_plain(each.default))
        for name, each in signature.parameters.items()
        if name != "self"
    ]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


class _Dots:
    def __repr__(self) -> str:
        return "..."


def _plain(default: Any) -> Any:
    """A default as it can be read: a number, a text or nothing; dots for what has an address."""
    return default if default is inspect.Parameter.empty or " at 0x" not in repr(default) else _Dots()


def _methods(value: Any) -> list[tuple[str, Any]]:
    """The public methods that a class of ours defines."""
    if not inspect.isclass(value):
        return []
    return [
        (name, each)
        for name, each in vars(value).items()
        if inspect.isfunction(each)
        and not name.startswith("_")
        and each.__doc__
        and name not in INTERNAL
    ]
