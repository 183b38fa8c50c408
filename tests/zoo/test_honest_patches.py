"""Right fixes, drawn in many forms over projects of many kinds: each is paid, as each passes its row's tests when these
are run plainly."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from tests.zoo.honest_patches.draft import Draft, PatchSubject
from tests.zoo.honest_patches.draw import TRANSFORMATIONS, draw
from tests.zoo.honest_patches.forms import FORMS
from tests.zoo.honest_patches.plain_run import APPLY, complaint
from tests.zoo.honest_patches.subjects import PatchCase, own_cases, own_subject
from tests.zoo.projects import commit, git, projects

from paddock.resources_servers.swe.grading import Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.images import resolve_image
from paddock.sandbox.local import LocalProvider

SEED = 7
SAMPLED = "pytest"
"""The project of the patches that are drawn here; all: `python -m benchmarks faults honest`."""
NUMBERS = [pytest.param(number, marks=[] if number < 2 else [pytest.mark.long]) for number in range(16)]
NOT_ALONE = {"docstrings", "without_comments"}
"""Transformations for which the small projects leave no room; others' do, and what another one leaves."""
LIKE_FORGING = {
    "a run that stops at the first failure, which is the sentinel's": ("pytest", "ini_stops_early"),
    "the same, by steps": ("pytest", "ini_stepwise"),
    "a line that reads like a failed test, where there is no sentinel": ("unittest", "prints_errors"),
    "a message between a test's name and its failure, in an audit": ("unittest", "logs"),
    "the same under Django's runner": ("django", "logs_errors"),
    "a new entry point in what an installation writes": ("installed", "pyproject_points"),
}
"""What a right fix has besides that a forger may have too: the project, and the transformation."""


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[PatchSubject]:
    found = []
    for name, project in projects().items():
        folder = tmp_path_factory.mktemp(name)
        commit(project, folder)
        found.append(own_subject(project, folder))
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def case_of(provider: LocalProvider, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """A project's row, by name."""
    known: dict[str, PatchCase] = {}

    async def make(name: str) -> PatchCase:
        if name not in known:
            (known[name],) = await own_cases(provider.store, tmp_path_factory.mktemp("cases"), [name])
        return known[name]

    return make


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def grader(provider: LocalProvider) -> AsyncIterator[Grader]:
    options = GradingOptions(tests_timeout_s=120, official=False)
    made = Grader(provider, options, resolve_image, measure_of(provider.settings.home))
    yield made
    await made.close()


def test_a_number_names_a_patch(subjects: list[PatchSubject]) -> None:
    drawn = [draw(subjects, SEED, number) for number in range(6)]
    assert [draw(subjects, SEED, number) for number in range(6)] == drawn
    assert len({one.patch for one in drawn}) == 6


@pytest.mark.slow
def test_each_transformation_has_room_somewhere_and_changes_something(subjects: list[PatchSubject]) -> None:
    room: set[str] = set()
    for one in TRANSFORMATIONS:
        for subject in subjects:
            draft = Draft(subject, Random(SEED))
            before = git(draft.folder, "write-tree")
            done = one(draft)
            git(draft.folder, "add", "-A", "--force")
            assert (git(draft.folder, "write-tree") != before) == done, (one.__name__, subject.name)
            draft.close()
            if done:
                room.add(one.__name__)
                break
    assert {one.__name__ for one in TRANSFORMATIONS} - NOT_ALONE == room
    assert len(TRANSFORMATIONS) > 180


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch on PATH: apt-get install patch")
@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_patch_in_any_form_makes_the_same_tree(form: str, subjects: list[PatchSubject], tmp_path: Path) -> None:
    chosen = [one for one in TRANSFORMATIONS if one.__name__ in ("split", "readme", "own_test", "another_way")]
    for subject in subjects[:2]:
        draft = Draft(subject, Random(SEED))
        assert all(one(draft) for one in chosen if one.__name__ != "another_way" or subject.name == "pytest")
        patch = FORMS[form](draft)
        git(draft.folder, "add", "-A", "--force")
        wanted = git(draft.folder, "write-tree")
        draft.close()
        tree = tmp_path / subject.name
        git(tmp_path, "clone", "-q", str(subject.folder), str(tree))
        (tmp_path / "patch").write_bytes(patch if patch.endswith(b"\n") else patch + b"\n")
        program = APPLY.replace("/tmp/patch", str(tmp_path / "patch"))
        subprocess.run(["bash", "-c", program], cwd=tree, check=True, capture_output=True)
        git(tree, "add", "-A", "--force")
        assert git(tree, "write-tree") == wanted


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("number", NUMBERS)
async def test_an_honest_patch_is_paid(
    number: int, case_of: Callable[[str], Any], grader: Grader, provider: LocalProvider
) -> None:
    case = await case_of(SAMPLED)
    drawn = draw([case.subject], SEED, number)
    assert await complaint(provider, case.instance, drawn.patch, timeout_s=60) is None, drawn
    got = await grader.grade(case.instance, drawn.patch)
    assert got.reason == "resolved", (drawn.changes, drawn.form, got.detail)


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("project", "change"), list(LIKE_FORGING.values()), ids=list(LIKE_FORGING))
async def test_what_looks_like_forging_and_is_not_is_paid(
    project: str, change: str, case_of: Callable[[str], Any], grader: Grader, provider: LocalProvider
) -> None:
    case = await case_of(project)
    draft = Draft(case.subject, Random(SEED))
    assert next(one for one in TRANSFORMATIONS if one.__name__ == change)(draft)
    patch = FORMS["plain"](draft)
    draft.close()
    if said := await complaint(provider, case.instance, patch, timeout_s=60):
        pytest.fail(f"no right fix: {said}")
    got = await grader.grade(case.instance, patch)
    assert got.reason == "resolved", got.detail
