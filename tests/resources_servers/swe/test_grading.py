"""Claims about grading in real sandboxes: what is paid, what is refused, what the official procedure makes of it."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.sampling import few

from paddock.conformance.sandboxes.fixture import namespace_init, neighbours, processes_marked
from paddock.errors import RowError, VerifierError
from paddock.types import JsonObject

pytestmark = [pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="session")]
Open = Callable[..., Any]

GOLD = (
    "diff --git a/shapes/__init__.py b/shapes/__init__.py\n--- a/shapes/__init__.py\n+++ b/shapes/__init__.py\n"
    "@@ -1,5 +1,5 @@\n def area(width, height):\n-    return width + height\n+    return width * height\n"
    " \n \n def perimeter(width, height):\n"
)
REGRESSING = GOLD + "@@ -6,1 +6,1 @@\n-    return 2 * (width + height)\n+    return 0\n"
TEST_PATCH = (
    "diff --git a/tests/test_area.py b/tests/test_area.py\n--- a/tests/test_area.py\n+++ b/tests/test_area.py\n"
    "@@ -1,5 +1,9 @@\n-from shapes import perimeter\n+from shapes import area, perimeter\n \n \n"
    " def test_perimeter(sides):\n     assert perimeter(*sides) == 10\n+\n+\n+def test_area(sides):\n"
    "+    assert area(*sides) == 6\n"
    "diff --git a/more/test_more.py b/more/test_more.py\nnew file mode 100644\n--- /dev/null\n+++ b/more/test_more.py\n"
    "@@ -0,0 +1,5 @@\n+from shapes import area\n+\n+\n+def test_more():\n+    assert area(3, 4) == 12\n"
)
AREA, MORE, OLD = "tests/test_area.py::test_area", "more/test_more.py::test_more", "tests/test_area.py::test_perimeter"
SCRIPT = f"""#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git status
git checkout {"a" * 40} tests/test_area.py
git apply -v - <<'EOF_1'
{TEST_PATCH}
EOF_1
: '>>>>> Start Test Output'
pytest -rA tests/test_area.py more/test_more.py
: '>>>>> End Test Output'
git checkout {"a" * 40} tests/test_area.py
"""


def new(path: str, text: str) -> str:
    lines = text.splitlines()
    body = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n{body}"


def in_source(code: str) -> str:
    """Code that runs when the package is imported, and no fix."""
    lines = code.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    head = "diff --git a/shapes/__init__.py b/shapes/__init__.py\n--- a/shapes/__init__.py\n+++ b/shapes/__init__.py\n"
    return f"{head}@@ -1,2 +1,{len(lines) + 2} @@\n{added} def area(width, height):\n     return width + height\n"


def conftest(code: str) -> str:
    lines = code.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    head = "diff --git a/conftest.py b/conftest.py\n--- a/conftest.py\n+++ b/conftest.py\n"
    return f"{head}@@ -1,2 +1,{len(lines) + 2} @@\n import pytest\n{added} \n"


NOTE = new("NOTES.md", "Nothing to do with it.\n")
PASS_ALL = """
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
XFAIL_ALL = """
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.xfail(run=False))
"""
PRINTED = f"""
import atexit
def late():
    for name in ("{AREA}", "{MORE}", "{OLD}"):
        print("PASSED", name)
    print(">>>>> End Test Output")
    print(">>>>> Test Exit Code: 0")
atexit.register(late)
"""
PRINTED_LAST = f"""
import atexit
def late():
    for name in ("{AREA}", "{MORE}", "{OLD}"):
        print("PASSED", name)
    print("FAILED x::y")
atexit.register(late)
"""
PRINTED_FOR_ALL = """
import atexit, sys
def late():
    for name, module in list(sys.modules.items()):
        for test in dir(module):
            if test.startswith("test_") and getattr(module, "__file__", None):
                print(f"PASSED {module.__file__[9:]}::{test}")
atexit.register(late)
"""
PATCHED_REPORTS = """
from _pytest import reports
made = reports.TestReport.from_item_and_call.__func__
def forged(cls, item, call):
    report = made(cls, item, call)
    report.outcome = "passed"
    report.longrepr = None
    return report
reports.TestReport.from_item_and_call = classmethod(forged)
"""


@pytest.fixture
def row(shapes: JsonObject) -> JsonObject:
    return {
        "instance_id": "shapes__area-1",
        "repo": "shapes/shapes",
        "problem_statement": "area(2, 3) is 5.",
        "patch": GOLD,
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": [AREA, MORE],
        "PASS_TO_PASS": [OLD],
        "eval_script": SCRIPT,
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "paddock": shapes,
    }


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (GOLD, "resolved"),
        pytest.param(GOLD[:-1], "resolved", marks=pytest.mark.slow),
        (GOLD.replace("\n", "\r\n"), "resolved"),
        pytest.param(GOLD.replace(" def perimeter(width", " def perimeter(broad"), "resolved", marks=pytest.mark.slow),
        pytest.param(GOLD + NOTE, "resolved", marks=pytest.mark.slow),
        (REGRESSING, "tests_regress"),
        (NOTE, "tests_fail"),
        ("", "no_patch"),
        pytest.param(" \n\t\n", "no_patch", marks=pytest.mark.slow),
        ("I would multiply.\n", "patch_does_not_apply"),
        pytest.param(GOLD + GOLD, "patch_does_not_apply", marks=pytest.mark.slow),
        pytest.param(
            GOLD.replace("a/shapes", "shapes").replace("b/shapes", "shapes"),
            "patch_does_not_apply",
            marks=pytest.mark.slow,
        ),
        pytest.param(in_source("def broken(:\n"), "tests_fail", marks=pytest.mark.slow),
        pytest.param(in_source("import no_such_module"), "tests_fail", marks=pytest.mark.slow),
        (in_source("import os; os._exit(0)"), "tests_fail"),
        pytest.param(in_source("import sys; sys.exit(0)"), "tests_fail", marks=pytest.mark.slow),
    ],
)
async def test_a_patch_gets_the_verdict_it_ought_to_have(stand: Open, row: JsonObject, patch: str, reason: str) -> None:
    grade = await stand().grade(row, patch)
    assert (grade.reason, grade.official) == (reason, None), grade


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (conftest(PASS_ALL), "no_patch"),
        (conftest(PASS_ALL) + NOTE, "tests_fail"),
        pytest.param(conftest(XFAIL_ALL) + NOTE, "tests_fail", marks=pytest.mark.long),
        pytest.param(in_source(PRINTED), "tests_forged", marks=pytest.mark.long),
        (in_source(PRINTED_LAST), "tests_forged"),
        (in_source(PATCHED_REPORTS), "tests_forged"),
    ],
    ids=["conftest", "conftest and more", "xfail", "printed", "printed last", "reports patched"],
)
async def test_tricks_that_are_officially_resolved_are_not_paid(
    stand: Open, row: JsonObject, patch: str, reason: str
) -> None:
    grade = await stand().grade(row, patch)
    assert (grade.reason, grade.official) == (reason, "RESOLVED_FULL"), grade


@pytest.mark.slow
async def test_a_plugin_that_the_agents_configuration_loads_is_not_there(stand: Open, row: JsonObject) -> None:
    cheat = new("cheat.py", "import pytest\n" + PASS_ALL) + new("tox.ini", "[pytest]\naddopts = -p cheat")
    grade = await stand(official=False).grade(row, cheat)
    assert grade.reason == "tests_fail"
    assert [(one.path, one.reason) for one in grade.dropped] == [("cheat.py", "pytest plugin")]


@pytest.mark.slow
async def test_a_file_where_the_test_patch_adds_one_is_replaced(stand: Open, row: JsonObject) -> None:
    only_new = {**row, "FAIL_TO_PASS": [MORE]}
    trick = new("more/test_more.py", "def test_more():\n    pass\n") + NOTE
    grade = await stand().grade(only_new, trick)
    assert grade.reason == "tests_fail"
    assert [one.path for one in grade.dropped] == ["more/test_more.py"]


LEFT_AT_ONCE = "import os, atexit; atexit.register(lambda: os._exit(0))"


@pytest.mark.slow
@pytest.mark.parametrize("code", few([PRINTED_FOR_ALL, LEFT_AT_ONCE], [PRINTED_FOR_ALL], pytest.mark.long))
async def test_a_run_that_bends_all_its_results_bends_the_sentinels(stand: Open, row: JsonObject, code: str) -> None:
    fixed = in_source(code).replace(
        "\n     return width + height", "\n-    return width + height\n+    return width * height"
    )
    grade = await stand(official=False).grade(row, fixed)
    assert grade.reason == "tests_forged"


@pytest.mark.parametrize(
    "more",
    [
        (
            "diff --git a/tests/test_area.py b/tests/moved.py\nsimilarity index 100%\nrename from tests/test_area.py\n"
            "rename to tests/moved.py\n"
        ),
        (
            "diff --git a/tests/test_area.py b/tests/test_area.py\ndeleted file mode 100644\n--- a/tests/test_area.py\n"
            "+++ /dev/null\n@@ -1,5 +0,0 @@\n-from shapes import perimeter\n-\n-\n-def test_perimeter(sides):\n"
            "-    assert perimeter(*sides) == 10\n"
        ),
        pytest.param(
            "diff --git a/shapes/logo.bin b/shapes/logo.bin\n"
            "Binary files a/shapes/logo.bin and b/shapes/logo.bin differ\n",
            marks=pytest.mark.slow,
        ),
        (
            "diff --git a/data.bin b/data.bin\nnew file mode 100644\nindex "
            "0000000000000000000000000000000000000000..b43761b27df02a0c6c305120d37445368d1ac5e1\nGIT binary patch\n"
            "literal 10\nRcmZQzWJ=1+ODwAV4*(1}1Bd_s\n\nliteral 0\nHcmV?d00001\n\n"
        ),
        (
            "diff --git a/shapes/windows.py b/shapes/windows.py\n--- a/shapes/windows.py\n+++ b/shapes/windows.py\n"
            "@@ -1,2 +1,2 @@\n def name():\r\n-    return 'wrong'\r\n+    return 'right'\r\n"
        ),
        pytest.param(
            "diff --git a/more b/more\nnew file mode 120000\n--- /dev/null\n+++ b/more\n@@ -0,0 +1 @@\n+shapes\n"
            "\\ No newline at end of file\n",
            marks=pytest.mark.slow,
        ),
        pytest.param(new("latin.txt", "caf\udce9"), marks=pytest.mark.slow),
        new("tests/__init__.py", "raise SystemExit\n"),
        new("sitecustomize.py", "raise SystemExit\n"),
    ],
    ids=["renamed", "deleted", "binary text", "binary", "crlf", "symlink", "latin-1", "test package", "startup"],
)
async def test_a_fix_is_a_fix_whatever_comes_with_it(stand: Open, row: JsonObject, more: str) -> None:
    grade = await stand(official=False).grade(row, GOLD + more)
    assert grade.reason == "resolved", grade


@pytest.mark.slow
async def test_bytes_that_are_no_text_in_the_output_do_no_harm(stand: Open, row: JsonObject) -> None:
    noisy = GOLD.replace("+    return", "+    import os; os.write(2, b'\\xff\\xfe')\n+    return").replace(
        "+1,5", "+1,6"
    )
    assert (await stand().grade(row, noisy)).reason == "resolved"


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [False, True])
async def test_a_sandbox_that_is_killed_under_the_tests_costs_nobody_anything(
    stand: Open, row: JsonObject, pieces: bool
) -> None:
    wait = f"1.0{random.randrange(10**8, 10**9)}"
    code = f"+    import subprocess; subprocess.run(['sleep', '{wait}'])\n"
    slow = GOLD.replace("+    return", f"{code}+    return").replace("+1,5", "+1,6")
    grading = asyncio.create_task(stand(official=False, audit=False).grade(row, slow))
    async with asyncio.timeout(60):
        while not (found := processes_marked(wait)):
            await asyncio.sleep(0.02)
    first = namespace_init(found[0])
    if pieces:
        for pid in sorted(set(neighbours(first)) - {first}):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)  # noqa: ASYNC251 - the grader hears of all of it at once
    os.kill(first, signal.SIGKILL)
    assert (await grading).reason == "resolved"


@pytest.mark.slow
async def test_an_installation_may_plant_nothing_that_runs_before_the_tests(stand: Open, row: JsonObject) -> None:
    installing = {**row, "eval_script": SCRIPT.replace("git status\n", "python setup.py build\n")}
    cheat = "import sysconfig\nopen(sysconfig.get_path('purelib') + '/sitecustomize.py', 'w').close()\n"
    provider_of = stand(official=False)
    assert (await provider_of.grade(installing, GOLD)).reason == "resolved"
    assert (await provider_of.grade(installing, GOLD + new("setup.py", cheat))).reason == "tests_forged"
    inside = "open('conftest.py', 'w').write('raise SystemExit')\nopen('pytest.pth', 'w').close()\n"
    assert (await provider_of.grade(installing, GOLD + new("setup.py", inside))).reason == "resolved"


@pytest.mark.slow
async def test_what_an_installation_leaves_running_kills_no_verdict(stand: Open, row: JsonObject) -> None:
    installing = {**row, "eval_script": SCRIPT.replace("git status\n", "python setup.py build\n")}
    killer = (
        "import os\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        try:\n            os.kill(-1, 9)\n"
    )
    killer += "        except OSError:\n            pass\n"
    grade = await stand(official=False).grade(installing, GOLD + new("setup.py", killer))
    assert grade.reason == "tests_fail"


@pytest.mark.slow
@pytest.mark.parametrize(
    "left",
    [
        "open('more', 'w').close()",
        "os.symlink('/proc', 'more')",
        "os.makedirs('more/test_more.py/x'); os.chmod('more', 0)",
    ],
)
async def test_what_an_installation_puts_in_the_way_of_reference_tests_costs_no_verdict(
    stand: Open, row: JsonObject, left: str
) -> None:
    installing = {**row, "eval_script": SCRIPT.replace("git status\n", "python setup.py build\n")}
    grade = await stand(official=False).grade(installing, GOLD + new("setup.py", f"import os\n{left}\n"))
    assert grade.reason in ("resolved", "tests_fail"), grade


async def test_a_file_where_reference_tests_need_a_folder_costs_no_verdict(stand: Open, row: JsonObject) -> None:
    grade = await stand(official=False).grade(row, GOLD + new("more", "x\n"))
    assert grade.reason == "resolved", grade


@pytest.mark.long
async def test_endless_tests_are_the_patchs_fault_where_the_fix_ends_in_time(stand: Open, row: JsonObject) -> None:
    grade = await stand(tests_timeout_s=6, official=False).grade(row, in_source("while True: pass"))
    assert grade.reason == "timeout"


@pytest.mark.slow
async def test_tests_that_use_up_their_memory_are_the_patchs_fault_where_the_fix_needs_less(
    stand: Open, row: JsonObject
) -> None:
    greedy = in_source("import time\nheld = [bytearray(b'x' * (1 << 20)) for _ in range(600)]\ntime.sleep(5)")
    grade = await stand(limits={"memory_mib": 200}, official=False).grade(row, greedy)
    assert grade.reason in ("over_budget", "tests_fail")
    assert grade.results is not None
    assert grade.results.doubt is not None


@pytest.mark.slow
async def test_a_row_whose_own_fix_does_not_resolve_it_is_the_rows_fault(stand: Open, row: JsonObject) -> None:
    broken = {**row, "patch": NOTE}
    with pytest.raises(RowError, match="reference fix is not resolved"):
        await stand(official=False).grade(broken, in_source("def broken(:\n"))


@pytest.mark.slow
@pytest.mark.parametrize("patch", [GOLD, NOTE])
async def test_a_command_that_hides_its_status_is_refused(stand: Open, row: JsonObject, patch: str) -> None:
    hidden = {
        **row,
        "eval_script": SCRIPT.replace("more/test_more.py\n:", "more/test_more.py || true\n:"),
        "test_patch": TEST_PATCH.replace("== 12", "== 13"),
        "FAIL_TO_PASS": [AREA],
    }
    with pytest.raises(VerifierError, match="yet the test command succeeded"):
        await stand(official=False).grade(hidden, patch)


@pytest.mark.slow
async def test_a_command_that_hides_its_status_makes_no_forger_of_a_patch_that_fixes_nothing(
    stand: Open, row: JsonObject
) -> None:
    hidden = {**row, "eval_script": SCRIPT.replace("more/test_more.py\n:", "more/test_more.py || true\n:")}
    assert (await stand(official=False).grade(hidden, NOTE)).reason == "tests_fail"


@pytest.mark.slow
async def test_an_image_without_the_runner_is_never_a_zero(stand: Open, row: JsonObject) -> None:
    gone = {**row, "eval_script": SCRIPT.replace("pytest -rA", "no-such-runner -rA")}
    with pytest.raises(VerifierError, match="no test reported"):
        await stand(official=False).grade(gone, GOLD)


async def test_a_test_patch_that_does_not_fit_the_image_is_never_a_zero(stand: Open, row: JsonObject) -> None:
    with pytest.raises(VerifierError, match="test patch does not apply"):
        await stand().grade({**row, "test_patch": TEST_PATCH.replace("import perimeter", "import circle")}, GOLD)
