"""The public names of `sdk`, with signatures and docstrings, for docs/results/API.md.

Knows the package `sdk` only.
"""

from __future__ import annotations

import inspect
import itertools
import re
from typing import Any

from mrtr_options import sdk

_WIDTH = 88
"""The longest signature that is written on one line, in characters."""

_ALIAS = re.compile(r"\b(?:collections|mcp|mcp_types|typing)\.(?:\w+\.)*")
"""Module names in the representation of a type. The page leaves them out."""

NAMES = re.findall(r"^ {4}(\w+)  ", sdk.__doc__ or "", re.MULTILINE)
"""The public names of `sdk`, read from its docstring, which has a line for each."""

INTERNAL = {
    "register",
    "perform",
    "begins_as_task",
    "caller",
    "begun",
    "rounds",
    "result_of",
    "methods",
    "outcome",
    "deliver",
}
"""Methods of public classes that only other modules of `sdk` call."""


def api() -> str:
    """Return a section for each public name, in alphabetical order."""
    return "\n\n".join(_section(name, getattr(sdk, name)) for name in sorted(NAMES, key=str.lower))


def _section(name: str, value: Any) -> str:
    told = [f"### {name}"]
    if inspect.isclass(value) or inspect.isfunction(value):
        told.append(f"```text\n{_signature(name, value)}\n```")
    module = getattr(value, "__module__", "")
    if module.startswith("mrtr_options"):
        told.append(f"```text\n{inspect.getdoc(value)}\n```")
        for method, each in _methods(value):
            told.append(f"```text\n{_signature(f'.{method}', each)}\n\n{inspect.getdoc(each)}\n```")
    elif inspect.isclass(value):
        told.append(f"From the SDK: `{module}`.")
    else:
        told.append(f"`{_ALIAS.sub('', repr(value))}`")
    return "\n\n".join(told)


def _signature(name: str, value: Any) -> str:
    """Return a call with types; if it is too long for one line, with a line for each parameter."""
    start = f"await {name}" if inspect.iscoroutinefunction(value) else name
    try:
        signature = inspect.signature(value)
    except ValueError:
        return f"{start}(...)"
    shown = [
        each.replace(annotation=_type(each.annotation), default=_plain(each.default))
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    returns = signature.empty if inspect.isclass(value) else _type(signature.return_annotation)
    told = str(signature.replace(parameters=shown, return_annotation=returns))
    if len(start + told) <= _WIDTH:
        return start + told
    alone = str(signature.replace(parameters=(), return_annotation=returns)).removeprefix("(")
    return f"{start}(\n" + "".join(f"    {each},\n" for each in _written(shown)) + alone


def _type(annotation: Any) -> Any:
    """Return an annotation as the author of a handler writes it."""
    if annotation is inspect.Signature.empty:
        return annotation
    written = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Shown(_ALIAS.sub("", written))


def _written(parameters: list[inspect.Parameter]) -> list[str]:
    """Return the parameters as text, with a star before those that must be named."""
    named = [each for each in parameters if each.kind is each.KEYWORD_ONLY]
    has_star = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    texts = [str(each) for each in parameters]
    if named and not has_star:
        texts.insert(parameters.index(named[0]), "*")
    return texts


class _Shown(str):
    """A text that stands in a signature without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _plain(default: Any) -> Any:
    """Return a default that can be read, such as a number or a text; dots if it has an address."""
    is_readable = default is inspect.Parameter.empty or " at 0x" not in repr(default)
    return default if is_readable else _Shown("...")


def _methods(value: Any) -> list[tuple[str, Any]]:
    """Return the public methods that a class of ours defines or inherits.

    Methods inherited from another public class are in that class's section.
    """
    if not inspect.isclass(value):
        return []
    bases = itertools.takewhile(lambda base: base.__name__ not in NAMES, value.__mro__[1:])
    ours = [each for each in bases if each.__module__.startswith("mrtr_options")]
    return [
        (name, each)
        for name, each in itertools.chain.from_iterable(vars(of).items() for of in (value, *ours))
        if inspect.isfunction(each)
        and not name.startswith("_")
        and each.__doc__
        and name not in INTERNAL
    ]
