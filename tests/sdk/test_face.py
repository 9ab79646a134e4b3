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


def loaded_by(statement: str) -> set[str]:
    """Run a statement in a process of its own, and return the modules that are loaded."""
    ran = python("-c", f"import sys\n{statement}\nprint(*sys.modules)")
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


IN_FORKS = """
import importlib, os

for name in {options}:
    if os.fork() == 0:
        importlib.import_module(f"mrtr_options.{{name}}")
        print(name, *{heavy} & set(sys.modules), sep=" loads ", flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""


def test_importing_an_option_loads_no_http_server_database_or_engine() -> None:
    """Import each one in a process of its own, after E."""
    code = IN_FORKS.format(options=OPTIONS, heavy=HEAVY)
    ran = python("-c", f"import sys, mrtr_options.option_e_mrtr_native\n{code}")
    assert ran.stdout.split("\n")[:-1] == OPTIONS, ran.stdout + ran.stderr


def test_importing_the_default_option_loads_few_modules_of_ours() -> None:
    loaded = loaded_by("import mrtr_options.option_f_once")
    ours = {name for name in loaded if name.partition(".")[0] == "mrtr_options"}
    assert len(ours) <= 23, sorted(ours)


def test_importing_sdk_loads_none_of_its_modules() -> None:
    loaded = loaded_by("import mrtr_options.sdk")
    assert {name for name in loaded if name.startswith("mrtr_options.sdk.")} == set()


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


@pytest.mark.parametrize("name", ["ask_again", "legacy_shim", "single_use"])
def test_a_name_that_is_also_a_submodules_is_the_function_whoever_is_imported_first(
    name: str,
) -> None:
    loaded_by(
        f"import mrtr_options.sdk.{name}\n"
        "from mrtr_options import sdk\n"
        f"from mrtr_options.sdk import {name}\n"
        f"assert sdk.{name} is {name} and callable({name})"
    )


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(sdk, "nothing")  # noqa: B009
