"""What a durable process leaves on disk when it is killed, and who removes it: the next one to start."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("dbos", reason="needs DBOS: pip install dbos")

from mrtr_options.sdk.durable.folder import own_folder
from mrtr_options.sdk.durable.liveness import Lease

LIVE = """
import sys
from pathlib import Path
from mrtr_options.sdk.durable.folder import own_folder
from mrtr_options.sdk.durable.liveness import Lease
with own_folder() as folder, Lease(sys.argv[1], sys.argv[2]).held():
    (folder / "calls.sqlite").write_text("an answer")
    print(folder, flush=True)
    sys.stdin.read()
"""


@contextmanager
def process(url: str, name: str) -> Generator[Path]:
    """A process that holds a lease and a folder of its own, killed with the block; the folder.

    What it holds looks old.
    """
    command = [sys.executable, "-c", LIVE, url, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as live:
        try:
            assert live.stdout is not None
            folder = Path(live.stdout.readline().strip())
            for path in (folder, lock_file(url, name), lock_file(url, f"{name}-journal")):
                os.utime(path, (0, 0))
            yield folder
        finally:
            live.kill()


def lock_file(url: str, name: str) -> Path:
    """The file that says whether a process is alive."""
    return Path(f"{url.removeprefix('sqlite:///')}.alive-{name}")


@pytest.mark.slow
def test_what_a_killed_process_left_goes_at_the_next_start_and_what_a_living_one_holds_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    url = f"sqlite:///{tmp_path / 'calls [1].sqlite'}"
    with process(url, "killed") as left:
        pass
    assert (left / "calls.sqlite").exists()
    assert lock_file(url, "killed").exists()
    with process(url, "living") as held:
        assert [left.exists(), *tmp_path.glob("*killed*")] == [False]
        with own_folder() as own, Lease(url, "new").held():
            assert [held.exists(), own.exists()] == [True, True]
            assert [lock_file(url, name).exists() for name in ("living", "new")] == [True, True]
        assert not own.exists()
