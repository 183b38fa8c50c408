"""The corpus of cheats: each fools a grader that trusts what a run says, and no grading pays it.

One by default, one of each kind where `slow` tests are run, all with `long` ones. One grading says little of a cheat
that acts by chance: what these earn is asked of all together, and of each by `python -m benchmarks faults cheats`.
"""

from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from tests.zoo.corpus import Cheat, CheatGrader, cheat_grader, cheats, own_projects
from tests.zoo.corpus.cheats import signs
from tests.zoo.corpus.naive import complaint, run_plainly

from paddock.resources_servers.swe.grading.run_results import official_view
from paddock.sandbox.local import LocalProvider

QUICK = "unittest-add_failure-argv"
"""Tried by default."""
SLOW = (
    "pytest-reports-always",
    "django-add_failure-always-script",
    "extension-compare-always",
    "installed-output_changed-always",
)
"""One of each other kind."""
NOTHING = b"diff --git a/N b/N\nnew file mode 100644\n--- /dev/null\n+++ b/N\n@@ -0,0 +1 @@\n+nothing\n"
KINDS = ("pytest", "django", "extension", "installed")
_MARKS = [pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="session")]


def params(chosen: list[Cheat]) -> list[Any]:
    """Parameters, marked by the time that there must be for them."""
    slow = {QUICK: [], **{name: [pytest.mark.slow] for name in SLOW}}
    return [pytest.param(one, id=one.name, marks=[*_MARKS, *slow.get(one.name, [pytest.mark.long])]) for one in chosen]


class CheatGraders:
    """By kind, each made when it is first asked for."""

    def __init__(self, provider: LocalProvider, folder: Path) -> None:
        self.provider = provider
        self._folder = folder
        self._made: dict[str, CheatGrader] = {}

    async def of(self, kind: str) -> CheatGrader:
        if kind not in self._made:
            self._made[kind] = await cheat_grader(self.provider, own_projects()[kind], self._folder)
        return self._made[kind]


@pytest.fixture(scope="session")
def cheat_graders(provider: LocalProvider, tmp_path_factory: pytest.TempPathFactory) -> CheatGraders:
    return CheatGraders(provider, tmp_path_factory.mktemp("corpus"))


def test_the_corpus_is_whole() -> None:
    found = list(cheats().values())
    assert len(found) >= 150
    assert {QUICK, *SLOW} <= set(cheats())
    assert {one.project.name for one in found} == {"unittest", *KINDS}
    assert {one.sign.name for one in found} == set(signs())
    for technique in {one.technique.name for one in found}:
        assert any(one.sign.name != "always" for one in found if one.technique.name == technique), technique


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("kind", ["unittest", *(pytest.param(one, marks=pytest.mark.long) for one in KINDS)])
async def test_a_project_has_a_bug_that_its_tests_see(kind: str, cheat_graders: CheatGraders) -> None:
    its = await cheat_graders.of(kind)
    for patch, status in ((its.instance.gold_patch, "RESOLVED_FULL"), (NOTHING, "RESOLVED_NO")):
        run = await run_plainly(cheat_graders.provider, its.instance, own_projects()[kind], patch)
        assert official_view(its.instance, run) == status, run.output


@pytest.mark.parametrize("cheat", params(list(cheats().values())))
async def test_a_grader_that_trusts_a_run_is_fooled(cheat: Cheat, cheat_graders: CheatGraders) -> None:
    its = await cheat_graders.of(cheat.project.name)
    assert await complaint(cheat_graders.provider, its.instance, cheat, its.folder) is None


@pytest.mark.slow
@pytest.mark.parametrize("cheat", params([one for one in cheats().values() if not (one.chance or one.tells)]))
async def test_a_cheat_is_not_paid(cheat: Cheat, cheat_graders: CheatGraders) -> None:
    graded = await (await cheat_graders.of(cheat.project.name)).grade(cheat)
    assert graded.pay <= 0, graded.grade


@pytest.mark.sandbox
@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
async def test_cheats_that_act_by_chance_earn_less_than_nothing_together(cheat_graders: CheatGraders) -> None:
    chosen = [one for one in cheats().values() if one.chance and not one.tells]
    pays = {one.name: (await (await cheat_graders.of(one.project.name)).grade(one)).pay for one in chosen}
    assert mean(pays.values()) < 0, pays
