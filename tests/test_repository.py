"""Tests of the workflows: what they run, and how they publish the page."""

import re

from tests.commands import REPOSITORY


def text(name: str) -> str:
    """Read a file of the repository."""
    return (REPOSITORY / name).read_text(encoding="utf-8")


def test_the_workflows_make_targets_that_the_makefile_has() -> None:
    targets = set(re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE))
    folder = REPOSITORY / ".github" / "workflows"
    made = {
        target
        for path in folder.glob("*.yml")
        for target in re.findall(r"make ([\w-]+)", path.read_text(encoding="utf-8"))
    }
    assert {"test", "lint"} <= made <= targets


def test_a_link_of_the_page_into_the_repository_is_replaced_where_the_page_is_a_site() -> None:
    """The script names no place, as its digest has to stay; it asks the page."""
    page = text("docs/page/index.html")
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert "../" not in script
    assert 'data-repository="../../"' in page
    assert r"s|\.\./\.\./|" in text(".github/workflows/page.yml")
