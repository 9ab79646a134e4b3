"""Tests of `mrtr_options.sdk`: it imports a name when it is first used, and has every name once."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from mrtr_options import sdk
from tests.commands import REPOSITORY, python

# `mcp` itself imports uvicorn, but none of these.
HEAVY = {"mrtr_options.sdk.serving", "sqlalchemy", "dbos", "temporalio", "psycopg"}

OPTIONS = sorted(path.stem for path in (REPOSITORY / "mrtr_options").glob("option_*.py"))


def in_forks(setup: str, *statements: str) -> list[set[str]]:
    """Run each statement in a fork of one process, and return the modules that are loaded then."""
    code = IN_FORKS.format(setup=setup, statements=statements)
    ran = python("-c", code)
    assert ran.returncode == 0, ran.stderr
    return [set(line.split()) for line in ran.stdout.splitlines()]


IN_FORKS = """
import os, sys
{setup}
for statement in {statements}:
    if os.fork() == 0:
        exec(statement)
        print(*sys.modules, flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""


def test_importing_an_option_loads_no_http_server_database_or_engine() -> None:
    """Import each one in a process of its own, after E."""
    imports = [f"import mrtr_options.{name}" for name in OPTIONS]
    for loaded in in_forks("import mrtr_options.option_e_mrtr_native", *imports):
        assert not HEAVY & loaded


def test_importing_sdk_or_the_default_option_loads_few_modules_of_ours() -> None:
    face, default = in_forks("", "import mrtr_options.sdk", "import mrtr_options.option_f_once")
    assert {name for name in face if name.startswith("mrtr_options.sdk.")} == set()
    ours = {name for name in default if name.partition(".")[0] == "mrtr_options"}
    assert len(ours) <= 23, sorted(ours)


def test_the_table_the_type_checkers_imports_and_the_docstring_have_the_same_names() -> None:
    tree = ast.parse(Path(sdk.__file__).read_text(encoding="utf-8"))
    (for_checkers,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        alias.name: each.module
        for each in for_checkers.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    table = {name: f"{sdk.__name__}.{module}" for name, module in sdk.NAMES.items()}
    assert table == imported
    assert set(table) == set(re.findall(r"^ {4}(\w+)  ", sdk.__doc__ or "", re.MULTILINE))


def test_a_name_is_the_same_object_as_in_its_module() -> None:
    for name in sdk.NAMES:
        value = getattr(sdk, name)
        assert getattr(sdk, name) is value
        assert not inspect.ismodule(value), name


def test_a_name_that_is_also_a_submodules_is_the_function_whoever_is_imported_first() -> None:
    checks = [
        f"import mrtr_options.sdk.{name}\n"
        f"from mrtr_options import sdk\n"
        f"from mrtr_options.sdk import {name}\n"
        f"assert sdk.{name} is {name} and callable({name})"
        for name in ("ask_again", "legacy_shim", "single_use")
    ]
    assert len(in_forks("import mcp.server", *checks)) == 3


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(sdk, "nothing")  # noqa: B009
