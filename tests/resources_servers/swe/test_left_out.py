"""Claims about files called like tests, in real sandboxes: code of the project counts, the reference's does not."""

from collections.abc import Callable
from typing import Any

import pytest

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

pytestmark = pytest.mark.sandbox


@pytest.fixture
def row(published: Open, diff: Open) -> JsonObject:
    gold = diff({"shapes/__init__.py": "def area(width, height):\n    return width * height\n" + PERIMETER})
    lists = {"FAIL_TO_PASS": [f"{PATH}::test_area"], "PASS_TO_PASS": []}
    made: JsonObject = published(gold, {PATH: TESTS}, f"pytest -rA {PATH}", **lists)
    return made


@pytest.mark.parametrize(
    "files",
    [
        {
            "shapes/__init__.py": "from shapes.test_support import product\n" + AREA + PERIMETER,
            "shapes/test_support.py": PRODUCT,
        },
        {
            "shapes/__init__.py": "from shapes.tests.modes import product\n" + AREA + PERIMETER,
            "shapes/tests/__init__.py": "",
            "shapes/tests/modes.py": PRODUCT,
        },
    ],
    ids=["named like a test", "in a folder called tests"],
)
async def test_a_new_module_that_the_project_imports_is_applied(
    stand: Open, row: JsonObject, diff: Open, files: Any
) -> None:
    grade = await stand(official=False).grade(row, diff(files))
    assert (grade.reason, grade.dropped) == ("resolved", ()), grade


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


@pytest.mark.parametrize("repo", ["pallets/flask", "iterative/dvc"])
async def test_a_row_without_a_script_of_its_own_tells_what_the_official_procedure_says(
    stand: Open, row: JsonObject, diff: Open, repo: str
) -> None:
    made = {key: value for key, value in row.items() if key not in ("eval_script", "log_parser", "eval_type")}
    older = {"environment_setup_commit": "a" * 40} if repo == "pallets/flask" else {}
    cheat = diff({"conftest.py": PASS_ALL, "NOTES": "Nothing.\n"})
    grade = await stand().grade({**made, **older, "repo": repo}, cheat)
    assert (grade.reason, grade.official) == ("tests_fail", "RESOLVED_FULL"), grade
