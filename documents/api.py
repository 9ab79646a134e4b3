"""Every name of `sdk` with its signature and its docstring, for docs/API.md. Knows `sdk`'s face."""

from __future__ import annotations

import inspect
import itertools
import re
from typing import Any

from mrtr_options import sdk

_WIDTH = 88
"""How many characters of a signature stand on one line."""

_ALIAS = re.compile(r"\b(?:collections|mcp|mcp_types|typing)\.(?:\w+\.)*")
"""The modules in the representation of a type."""

NAMES = re.findall(r"^ {4}(\w+)  ", sdk.__doc__ or "", re.MULTILINE)
"""The names of the face: its docstring has a line for each."""

INTERNAL = frozenset(
    (
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
    )
)
"""Methods of the face's classes that are for the other modules of `sdk`."""


def api() -> str:
    """A section for each name, in the order of the alphabet."""
    return "\n\n".join(_section(name, getattr(sdk, name)) for name in sorted(NAMES, key=str.lower))


def _section(name: str, value: Any) -> str:
    told = [f"### {name}"]
    if inspect.isclass(value) or inspect.isfunction(value):
        told.append(f"```text\n{_signature(name, value)}\n```")
    if (value_of := getattr(value, "__module__", "")).startswith("mrtr_options"):
        told.append(f"```text\n{inspect.getdoc(value)}\n```")
        for method, each in _methods(value):
            told.append(f"```text\n{_signature(f'.{method}', each)}\n\n{inspect.getdoc(each)}\n```")
    elif inspect.isclass(value):
        told.append(f"From the SDK: `{value_of}`.")
    else:
        told.append(f"`{_ALIAS.sub('', repr(value))}`")
    return "\n\n".join(told)


def _signature(name: str, value: Any) -> str:
    """How it is called, with types; a line for each parameter where one line is too short."""
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
    """An annotation as the author of a handler writes it."""
    if annotation is inspect.Signature.empty:
        return annotation
    written = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Shown(_ALIAS.sub("", written))


def _written(parameters: list[inspect.Parameter]) -> list[str]:
    """Parameters as they are written, with the star before those that have to be named."""
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
    """A default as it can be read: a number, a text or nothing; dots for what has an address."""
    is_readable = default is inspect.Parameter.empty or " at 0x" not in repr(default)
    return default if is_readable else _Shown("...")


def _methods(value: Any) -> list[tuple[str, Any]]:
    """The public methods that a class of ours defines, or inherits from one that is not of the
    face.
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
