"""Claims about rows of publishers' data sets, in real sandboxes: each is graded by its own rule."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.resources_servers.swe.publishers.rows import (
    HALF,
    SMITH_ID,
    deepswe,
    denovoswe,
    ext,
    live,
    live_program,
    multi,
    pro,
    rebench_v2,
    smith,
)
from tests.resources_servers.swe.test_forms import GOLD, NULL, REGRESSING, TEST_FILE, edit, inside

from paddock.errors import VerifierError
from paddock.resources_servers.swe.grading import Grade
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import SandboxSpec
from paddock.sandbox.images import ImageStore, Recipe
from paddock.sandbox.images.build import build_image
from paddock.sandbox.images.prepare import prepare_image
from paddock.types import JsonObject, Row

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]
Open = Callable[..., Any]
WORKDIRS = {"shapes__v2-1": "/shapes", SMITH_ID: "/testbed", "CS-SI__eodag-1": "/home/eodag"}
CASES = {
    "gold": (GOLD, "resolved"),
    "noop": (NULL, "tests_fail"),
    "half": (HALF, "patch_does_not_apply"),
    "regression": (REGRESSING, "tests_regress"),
    "empty": ("", "no_patch"),
}
PLAIN: dict[str, Callable[..., JsonObject]] = {
    "swe_rebench_v2": rebench_v2,
    "swe_bench_live": live,
    "swe_bench_live with a program": live_program,
    "swe_bench_pro": lambda **fields: pro(**_with_tests(fields)),
}


def _with_tests(fields: JsonObject) -> JsonObject:
    return {"paddock": {**fields["paddock"], "env": {"NEW_TESTS": TEST_FILE}}}


class FamilyStand:
    """Grades rows of a family over images at the places that it wants."""

    def __init__(self, open_stand: Open, images: ImageStore, recipe: JsonObject, tools: PublisherTools) -> None:
        self.recipe = recipe
        self._open = open_stand
        self._images = images
        self._tools = tools

    async def grade(self, task: JsonObject, patch: str, **options: Any) -> Grade:
        instance = read(Row.from_wire({"responses_create_params": {"input": []}, **task}), self._tools)
        if instance.instance_id in WORKDIRS:
            recipe = Recipe.model_validate({**self.recipe, "workdir": WORKDIRS[instance.instance_id]})
            source = Path(self.recipe["git"]["repository"])
            await build_image(self._images, instance.image, recipe, local_repositories=[source])
        grade: Grade = await self._open(**options).grader.grade(instance, patch.encode())
        return grade


@pytest.fixture
def families(stand: Open, images: ImageStore, shapes: JsonObject, tools: PublisherTools) -> FamilyStand:
    return FamilyStand(stand, images, shapes, tools)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PLAIN)
async def test_a_row_is_graded_by_its_rule(families: FamilyStand, name: str, case: str) -> None:
    patch, reason = CASES[case]
    grade = await families.grade(PLAIN[name](paddock=families.recipe), patch)
    assert grade.reason == reason, grade


@pytest.mark.parametrize("case", CASES)
async def test_a_swe_bench_ext_row_is_graded_and_half_patches_are_refused(
    families: FamilyStand, nemo_gym: Path, case: str
) -> None:
    patch, reason = CASES[case]
    grade = await families.grade(ext(paddock=families.recipe), patch)
    assert grade.reason == reason, grade


@pytest.mark.parametrize("case", CASES)
async def test_a_multi_swe_row_is_graded_by_its_lists(families: FamilyStand, packages: Path, case: str) -> None:
    patch, reason = CASES[case]
    if case == "regression":
        reason = "tests_fail"  # its n2p test is a target
    grade = await families.grade(multi(paddock=families.recipe), patch)
    assert grade.reason == reason, grade


SMITH_CASES = {
    "gold": (edit("2 * width + height", "2 * (width + height)"), "resolved"),
    "noop": (NULL, "tests_fail"),
    "half": (HALF.replace(GOLD, edit("2 * width + height", "2 * (width + height)")), "patch_does_not_apply"),
    "empty": ("", "no_patch"),
}


@pytest.mark.parametrize("case", SMITH_CASES)
async def test_a_swe_smith_row_has_its_bug_and_is_graded(families: FamilyStand, packages: Path, case: str) -> None:
    patch, reason = SMITH_CASES[case]
    grade = await families.grade(smith(paddock=families.recipe), patch)
    assert grade.reason == reason, grade


LOOK = """cd /testbed
cat shapes/__init__.py; ls tests
git cat-file --batch --batch-all-objects | tr -cd '\\11\\12\\40-\\176'; git log --all --reflog -p --format=%B
"""


async def test_an_agent_gets_the_bug_and_nothing_that_tells_it(
    families: FamilyStand, stand: Open, packages: Path, tools: PublisherTools
) -> None:
    await families.grade(smith(paddock=families.recipe), NULL)
    row = smith(paddock=families.recipe)
    instance = read(Row.from_wire({"responses_create_params": {"input": []}, **row}), tools)
    provider = stand().provider
    image = await prepare_image(provider, instance.image, instance.workdir, instance.hidden_paths, instance.image_patch)
    handle = await provider.create(SandboxSpec(image=image, workdir="/testbed"), request_id=uuid.uuid4().hex)
    seen = await inside(provider, handle.sandbox_id, ["sh", "-s"], LOOK)
    await provider.destroy(handle.sandbox_id)
    assert "return 2 * width + height" in seen
    assert "test_other.py" in seen
    assert [text for text in ("2 * (width + height)", "test_area.py", "test_perimeter") if text in seen] == []


DEEPSWE_CASES = {**CASES, "regression": (REGRESSING, "tests_fail")}


@pytest.mark.parametrize("case", DEEPSWE_CASES)
async def test_a_deepswe_row_is_graded_by_what_its_script_writes(families: FamilyStand, case: str) -> None:
    patch, reason = DEEPSWE_CASES[case]
    grade = await families.grade(deepswe(paddock=families.recipe), patch)
    assert grade.reason == reason, grade


async def test_a_deepswe_script_that_writes_nothing_is_never_a_zero(families: FamilyStand) -> None:
    with pytest.raises(VerifierError, match="no test reported a result"):
        await families.grade(deepswe(paddock=families.recipe, test_sh="exit 0"), NULL)


DENOVO_CASES = {**CASES, "regression": (REGRESSING, "tests_fail")}


@pytest.mark.parametrize("case", DENOVO_CASES)
async def test_a_denovoswe_row_wants_all_its_tests_and_has_no_fix(families: FamilyStand, case: str) -> None:
    patch, reason = DENOVO_CASES[case]
    grade = await families.grade(denovoswe(paddock=families.recipe), patch)
    assert grade.reason == reason, grade


async def test_a_doubt_about_a_row_without_a_fix_is_never_a_zero(families: FamilyStand) -> None:
    exits = GOLD.replace("@@ -1,2 +1,2 @@\n", "@@ -1,2 +1,4 @@\n+import os\n+os._exit(0)\n")
    with pytest.raises(VerifierError, match="no reference fix"):
        await families.grade(denovoswe(paddock=families.recipe), exits)
