"""Claims about files called like tests, in real sandboxes: code of the project counts, the reference's does not."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import pytest_asyncio

from paddock.sandbox import ExecRequest, SandboxSpec
from paddock.sandbox.images import ImageStore
from paddock.types import JsonObject

Open = Callable[..., Any]
PATH = "tests/test_area.py"
TESTS = "from shapes import area\n\n\ndef test_area():\n    assert area(2, 3) == 6\n"
PERIMETER = "\n\ndef perimeter(width, height):\n    return 2 * (width + height)\n"
PRODUCT = "def product(width, height):\n    return width * height\n"
BENT = (
    "from _pytest import reports\n\nmade = reports.TestReport.from_item_and_call.__func__\n\n\n"
    "def forged(cls, item, call):\n    report = made(cls, item, call)\n"
    "    report.outcome, report.longrepr = 'passed', None\n    return report\n\n\n"
    "reports.TestReport.from_item_and_call = classmethod(forged)\n"
)
AREA = "\n\ndef area(width, height):\n    return product(width, height)\n"
AT_RUN_TIME = (
    "import importlib\n\nproduct = importlib.import_module('.'.join(['shapes', 'tests', 'mo' + 'des'])).product\n"
)
PASS_ALL = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
)

pytestmark = [pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def row(published: Open, diff: Open) -> JsonObject:
    gold = diff({"shapes/__init__.py": "def area(width, height):\n    return width * height\n" + PERIMETER})
    lists = {"FAIL_TO_PASS": [f"{PATH}::test_area"], "PASS_TO_PASS": []}
    made: JsonObject = published(gold, {PATH: TESTS}, f"pytest -rA {PATH}", **lists)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    "files",
    [
        {
            "shapes/__init__.py": "from shapes.test_support import product\n" + AREA + PERIMETER,
            "shapes/test_support.py": PRODUCT,
        },
        pytest.param(
            {
                "shapes/__init__.py": "from shapes.tests.modes import product\n" + AREA + PERIMETER,
                "shapes/tests/__init__.py": "",
                "shapes/tests/modes.py": PRODUCT,
            },
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {
                "shapes/__init__.py": "from .self_test import product\n" + AREA + PERIMETER,
                "shapes/self_test.py": PRODUCT + "\n\ndef test_product():\n    assert product(2, 3) == 6\n",
            },
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {
                "shapes/__init__.py": "from shapes.tests import util\n\nproduct = util.product\n" + AREA + PERIMETER,
                "shapes/tests/__init__.py": "",
                "shapes/tests/util.py": PRODUCT,
                "shapes/tests/test_util.py": "def test_mine():\n    pass\n",
            },
            marks=pytest.mark.slow,
        ),
    ],
    ids=["named like a test", "in a folder called tests", "with tests of itself", "beside the project's own tests"],
)
async def test_a_new_module_that_the_project_imports_is_applied(
    stand: Open, row: JsonObject, diff: Open, files: Any
) -> None:
    grade = await stand(official=False).grade(row, diff(files))
    own = tuple(path for path in files if path == "shapes/tests/test_util.py")
    assert (grade.reason, tuple(one.path for one in grade.dropped)) == ("resolved", own), grade


@pytest.mark.slow
async def test_a_failing_patch_is_tried_again_with_what_may_be_the_projects(
    stand: Open, row: JsonObject, diff: Open
) -> None:
    fix = {
        "shapes/__init__.py": AT_RUN_TIME + AREA + PERIMETER,
        "shapes/tests/__init__.py": "",
        "shapes/tests/modes.py": PRODUCT,
        "tests/test_mine.py": "def test_mine():\n    pass\n",
    }
    grade = await stand(official=False).grade(row, diff(fix))
    assert (grade.reason, [one.path for one in grade.dropped]) == ("resolved", ["tests/test_mine.py"]), grade


@pytest.mark.slow
async def test_it_is_not_where_no_audit_would_tell(stand: Open, row: JsonObject, diff: Open) -> None:
    files = {"shapes/__init__.py": AT_RUN_TIME + AREA + PERIMETER, "shapes/tests/modes.py": PRODUCT}
    grade = await stand(official=False, audit=False).grade(row, diff(files))
    assert (grade.reason, [one.reason for one in grade.dropped]) == ("tests_fail", ["in a folder of tests"]), grade


@pytest.mark.slow
async def test_a_second_try_pays_no_forger(stand: Open, row: JsonObject, diff: Open) -> None:
    files = {"shapes/__init__.py": AT_RUN_TIME + AREA + PERIMETER, "shapes/tests/modes.py": BENT + "product = max\n"}
    grade = await stand(official=False).grade(row, diff(files))
    assert (grade.reason, len(grade.dropped)) == ("tests_fail", 1), grade


@pytest.mark.slow
@pytest.mark.parametrize("repo", ["pallets/flask", pytest.param("iterative/dvc", marks=pytest.mark.slow)])
async def test_a_row_without_a_script_of_its_own_tells_what_the_official_procedure_says(
    stand: Open, row: JsonObject, diff: Open, repo: str
) -> None:
    made = {key: value for key, value in row.items() if key not in ("eval_script", "log_parser", "eval_type")}
    older = {"environment_setup_commit": "a" * 40} if repo == "pallets/flask" else {}
    cheat = diff({"conftest.py": PASS_ALL, "NOTES": "Nothing.\n"})
    grade = await stand().grade({**made, **older, "repo": repo}, cheat)
    assert (grade.reason, grade.official) == ("tests_fail", "RESOLVED_FULL"), grade


HELPER = "def same(found, wanted):\n    assert found == wanted\n"
WITH_HELPER = (
    "from helpers import same\n\nfrom shapes import area, perimeter\n\n\ndef test_area():\n    assert area(2, 3) == 6\n"
    "\n\ndef test_perimeter():\n    same(perimeter(2, 3), 10)\n"
)


@pytest_asyncio.fixture(loop_scope="session")
async def helped(stand: Open, images: ImageStore) -> str:
    """An image of the project whose tests have a helper module of their own."""
    name = f"shapes__helped-{hashlib.sha256(repr(images.get('shapes__area-1').record.layers).encode()).hexdigest()[:8]}"
    if not images.has(name):
        provider = stand().provider
        handle = await provider.create(SandboxSpec(image="shapes__area-1", workdir="/testbed"), request_id="create")
        await provider.write(handle.sandbox_id, "/testbed/tests/helpers.py", HELPER.encode())
        words = "git add -A && git -c user.name=a -c user.email=a@b commit -q -m helpers"
        done = await provider.exec(handle.sandbox_id, ExecRequest(argv=["sh", "-c", words]), request_id="commit")
        assert done.ok
        await provider.snapshot(handle.sandbox_id, name)
        await provider.destroy(handle.sandbox_id)
    return name


@pytest.mark.slow
async def test_a_helper_that_hides_a_regression_is_not_paid(
    stand: Open, row: JsonObject, diff: Open, helped: str
) -> None:
    task = {
        "instance_id": "shapes__helped-1",
        "problem_statement": "area(2, 3) is 5.",
        "image": helped,
        "patch": row["patch"],
        "test_files": {PATH: WITH_HELPER},
        "test_command": f"pytest -rA {PATH}",
        "FAIL_TO_PASS": [f"{PATH}::test_area"],
        "PASS_TO_PASS": [f"{PATH}::test_perimeter"],
    }
    broken = diff(
        {"shapes/__init__.py": "def area(width, height):\n    return width * height\n" + "\n\nperimeter = max\n"}
    )
    bent = (
        "diff --git a/tests/helpers.py b/tests/helpers.py\n--- a/tests/helpers.py\n+++ b/tests/helpers.py\n"
        "@@ -1,2 +1,2 @@\n def same(found, wanted):\n-    assert found == wanted\n+    pass\n"
    )
    grade = await stand().grade(task, broken + bent)
    assert (grade.reason, [one.path for one in grade.dropped]) == ("tests_regress", ["tests/helpers.py"]), grade
    honest = bent.replace("+    pass", "+    assert wanted == found")
    fixed = await stand().grade(task, row["patch"] + honest)
    assert fixed.reason == "resolved", fixed
