"""The projects are what they say: their tests, run plainly, refuse the tree as it is, and find each right fix right."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.zoo.honest_patches.plain_run import complaint
from tests.zoo.honest_patches.subjects import PatchCase, own_cases
from tests.zoo.projects import patch_of, projects

from paddock.sandbox.local import LocalProvider

PROJECTS = projects()
KINDS = {"pytest", "unittest", "django", "extension", "installed"}
NOTES = {"NOTES": "nothing\n"}
WAYS = [(name, way) for name, project in PROJECTS.items() for way in ["as it is", "fixed", *project.ways]]
SAMPLE = [("pytest", "as it is"), ("pytest", "pool")]

pytestmark = [pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(scope="session")
def case(provider: LocalProvider, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """The row of a project."""
    known: dict[str, PatchCase] = {}

    async def make(name: str) -> PatchCase:
        if name not in known:
            (known[name],) = await own_cases(provider.store, tmp_path_factory.mktemp("projects"), [name])
        return known[name]

    return make


@pytest.mark.slow
async def test_there_are_projects_of_each_kind() -> None:
    assert set(PROJECTS) == KINDS
    assert all(len(project.ways) >= 4 for project in PROJECTS.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "way"), [pytest.param(*one, marks=[] if one in SAMPLE else [pytest.mark.long]) for one in WAYS]
)
async def test_tests_tell_a_right_fix(
    name: str, way: str, case: Callable[..., Any], provider: LocalProvider, tmp_path: Path
) -> None:
    project = PROJECTS[name]
    row = await case(name)
    changed = {"as it is": NOTES, "fixed": project.fixed}.get(way) or {**project.fixed, **project.ways[way]}
    patch = patch_of(row.subject.folder, changed).encode()
    said = await complaint(provider, row.instance, patch, timeout_s=60)
    assert (said is None) == (way != "as it is"), said
