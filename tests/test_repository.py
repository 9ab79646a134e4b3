"""Tests of what people expect in a repository: workflows, citation, changelog, metadata."""

import re
import tomllib

from tests.commands import REPOSITORY


def text(name: str) -> str:
    """Read a file of the repository."""
    return (REPOSITORY / name).read_text(encoding="utf-8")


PROJECT = tomllib.loads(text("pyproject.toml"))["project"]
RELEASES = re.findall(r"^## \[(\d.*)\] - (.*)$", text("CHANGELOG.md"), re.MULTILINE)


def test_the_citation_names_the_release_that_is_installed_and_its_day_in_the_changelog() -> None:
    cited = dict(re.findall(r"^([\w-]+): (.+)$", text("CITATION.cff"), re.MULTILINE))
    assert (cited["version"], cited["date-released"]) == RELEASES[0]
    assert cited["version"] == PROJECT["version"]


def test_the_workflow_tests_each_python_that_the_package_names() -> None:
    workflow = text(".github/workflows/tests.yml")
    (tested,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    prefix = "Programming Language :: Python :: 3."
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if each.startswith(prefix)]
    assert re.findall(r'"(.*?)"', tested) == named


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
