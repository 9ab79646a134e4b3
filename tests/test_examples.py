"""The examples as programs: they say what they are about, refuse unknown flags and keep logs out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.bounds import SECONDS

pytestmark = pytest.mark.slow

EXAMPLES = ("basic", "multiround", "carriers", "inputs", "client_dual_path", "index_directory")


def ran(example: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"mrtr_options.examples.{example}", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_has_help(example: str) -> None:
    helped = ran(example, "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert f"usage: python -m mrtr_options.examples.{example}" in helped.stdout


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_refuses_an_unknown_flag_in_one_line(example: str) -> None:
    refused = ran(example, "--nope")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("example", ["basic", "multiround", "carriers", "inputs"])
def test_a_demonstration_sees_what_it_expects_and_no_log_line_is_in_it(example: str) -> None:
    told = ran(example)
    assert (told.returncode, told.stderr) == (0, ""), told.stdout
    assert "  with the answer " in told.stdout
    assert max(len(line) for line in told.stdout.splitlines()) <= 100
    if example in ("multiround", "carriers"):
        assert "Invalid or expired requestState" in told.stdout
