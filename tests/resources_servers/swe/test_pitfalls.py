"""Known pitfalls of the official rules, each provoked in real sandboxes, with the verdict that it ought to have.

`PITFALLS` says which test has which. `grade.official` is what the official procedure makes of the same patch, and None
where that is no different; a real row tells it in its verdict.
"""

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.resources_servers.swe.grading.patches import sections
from paddock.sandbox import ExecRequest, SandboxSpec
from paddock.types import JsonObject, patch_from_text, patch_to_text

PITFALLS = {
    # A passing verdict without a fix.
    "a conftest sets every report to passed": "test_grading::test_tricks_that_are_officially_resolved_are_not_paid",
    "a conftest marks all as xfail(run=False)": "test_grading::test_tricks_that_are_officially_resolved_are_not_paid",
    "the patch creates a file of the test patch": "test_a_file_that_the_test_patch_adds_is_the_references",
    "printed results, end marker and exit code": "test_grading::test_tricks_that_are_officially_resolved_are_not_paid",
    "printed results after the real ones": "test_grading::test_tricks_that_are_officially_resolved_are_not_paid",
    "a conftest prints all ids as passed": "test_a_conftest_that_prints_all_ids_at_the_end_is_not_there",
    "os._exit, sys.exit, a syntax error": "test_grading::test_a_patch_gets_the_verdict_it_ought_to_have",
    "a conftest skips everything": "test_a_conftest_that_skips_everything_is_not_there",
    "exit status 0 with failures": "test_grading::test_a_command_that_hides_its_status_is_refused",
    "tests outside the lists fail": "test_a_test_outside_the_lists_may_fail",
    "an empty patch over a passing log": "test_grading::test_a_patch_gets_the_verdict_it_ought_to_have",
    # A failing verdict with a fix.
    "a fix that fails here": "checks/test_command::test_a_fix_that_does_not_pass_its_tests_refuses_the_row",
    "a fix that is flaky": "checks/test_command::test_a_flaky_target_refuses_the_row_and_is_named",
    "one CPU": "test_a_test_that_is_skipped_on_one_cpu_counts_as_failed_as_officially",
    "ids cut inside a parameter": "test_ids_with_spaces_are_those_of_the_rows_own_parser",
    "siblings of a cut id": "test_one_failing_sibling_fails_a_cut_id",
    "ids that are no tests": "test_an_id_that_is_no_test_is_matched_as_officially",
    "ids that are docstrings": "test_docstring_ids_need_the_interpreter_that_they_were_made_with",
    "the log shows a root commit": "test_a_log_that_shows_the_whole_repository_is_never_read",
    "binary changes without --binary": "test_grading::test_a_fix_is_a_fix_whatever_comes_with_it",
    "binary changes": "test_what_an_agent_leaves_is_graded_byte_for_byte",
    "removed or renamed test files": "test_what_an_agent_leaves_is_graded_byte_for_byte",
    "CRLF files": "test_what_an_agent_leaves_is_graded_byte_for_byte",
    "CRLF patches, no final newline": "test_grading::test_a_patch_gets_the_verdict_it_ought_to_have",
    "source that is no UTF-8": "test_what_an_agent_leaves_is_graded_byte_for_byte",
    "output that is no UTF-8": "test_grading::test_bytes_that_are_no_text_in_the_output_do_no_harm",
    "build products": "test_build_products_are_no_part_of_the_patch",
    "an environment that is not frozen": "test_the_environment_of_tests_is_the_same_everywhere",
    "packets that must vanish": "test_packets_vanish_where_the_row_says_so",
    "an installation that needs an index": "test_an_installation_from_an_index_is_left_out_where_the_tree_is_in_place",
    "a patch that breaks an import": "test_a_patch_that_breaks_the_import_of_a_conftest_applies_and_fails",
}
Open = Callable[..., Any]
HERE = Path(__file__).parent

SOURCE = "def area(width, height):\n    return width + height\n\n\n"
PERIMETER = "def perimeter(width, height):\n    return 2 * (width + height)\n"
FIXED = SOURCE.replace("+", "*") + PERIMETER
FIX = "sed -i 's/return width + height/return width * height/' shapes/__init__.py\n"
TESTS = (
    "import os\n\nimport pytest\n\nfrom shapes import area, perimeter\n\n\n"
    "def test_area():\n    assert area(2, 3) == 6\n\n\ndef test_perimeter(sides):\n    assert perimeter(*sides) == 10\n"
)
PATH = "tests/test_area.py"
AREA, OLD = f"{PATH}::test_area", f"{PATH}::test_perimeter"
PRINT_ALL = f"\ndef pytest_unconfigure():\n    for name in {[AREA, OLD]}:\n        print('PASSED', name)\n"
SKIP_ALL = "\ndef pytest_collection_modifyitems(items):\n    for item in items:\n        item.add_marker('skip')\n"
CONFTEST = "import pytest\n\n\n@pytest.fixture\ndef sides():\n    return 2, 3\n"


pytestmark = pytest.mark.slow


@pytest.fixture
def gold(diff: Open) -> str:
    made: str = diff({"shapes/__init__.py": FIXED})
    return made


@pytest.fixture
def hidden(published: Open, gold: str) -> Open:
    """A row whose hidden tests are those above and some more, by function name."""

    def row(more: str = "", *kept: str, command: str = f"pytest -rA {PATH}", **fields: Any) -> JsonObject:
        lists = {"FAIL_TO_PASS": [AREA], "PASS_TO_PASS": [OLD, *(f"{PATH}::{name}" for name in kept)]}
        made: JsonObject = published(gold, {PATH: TESTS + more}, command, **{**lists, **fields})
        return made

    return row


async def work(stand: Any, script: str) -> bytes:
    """The patch of what an agent leaves: through a provider, and as a response carries it."""
    spec = SandboxSpec(image="shapes__area-1", workdir="/testbed")
    handle = await stand.provider.create(spec, request_id=uuid.uuid4().hex)
    request = ExecRequest(argv=["bash", "-es"], stdin=script.encode(), merge_stderr=True)
    done = await stand.provider.exec(handle.sandbox_id, request, request_id=uuid.uuid4().hex)
    assert done.ok, done
    made = await stand.provider.patch(handle.sandbox_id, "/testbed")
    await stand.provider.destroy(handle.sandbox_id)
    return patch_from_text(patch_to_text(made.data))


@pytest.mark.parametrize("where", PITFALLS.values())
def test_every_pitfall_has_its_test(where: str) -> None:
    file, _, name = where.rpartition("::")
    assert f"def {name}(" in (HERE / f"{file or 'test_pitfalls'}.py").read_text()


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_a_file_that_the_test_patch_adds_is_the_references(stand: Open, published: Open, diff: Open) -> None:
    new = "tests/test_new.py"
    tests = {new: TESTS, PATH: TESTS}
    lists = {"FAIL_TO_PASS": [f"{new}::test_area"], "PASS_TO_PASS": []}
    row = published(diff({"shapes/__init__.py": FIXED}), tests, f"pytest -rA {new}", **lists)
    trick = diff({new: "def test_area():\n    pass\n", "NOTES": "Nothing.\n"})
    grade = await stand().grade(row, trick)
    assert (grade.reason, grade.official) == ("tests_fail", "RESOLVED_FULL")
    assert [one.path for one in grade.dropped] == [new]


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("more", "official"), [("", None), ("\n\ndef test_known_bug():\n    assert 0\n", "RESOLVED_FULL")]
)
async def test_a_conftest_that_prints_all_ids_at_the_end_is_not_there(
    stand: Open, hidden: Open, diff: Open, more: str, official: str | None
) -> None:
    """Officially it is refused unless another test fails in the log: then the exit status is explained."""
    trick = diff({"conftest.py": CONFTEST + PRINT_ALL, "NOTES": "Nothing.\n"})
    grade = await stand().grade(hidden(more), trick)
    assert (grade.reason, grade.official) == ("tests_fail", official)


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_a_conftest_that_skips_everything_is_not_there(stand: Open, hidden: Open, diff: Open) -> None:
    grade = await stand().grade(hidden(), diff({"conftest.py": CONFTEST + SKIP_ALL, "NOTES": "Nothing.\n"}))
    assert (grade.reason, grade.official) == ("tests_fail", None)
    assert grade.results.fail_to_pass == {AREA: "FAILED"}


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_a_test_outside_the_lists_may_fail(stand: Open, hidden: Open, gold: str) -> None:
    grade = await stand().grade(hidden("\n\ndef test_known_bug():\n    assert 0\n"), gold)
    assert (grade.reason, grade.official, grade.run.exit_code) == ("resolved", None, 1)


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs, to take one away")
async def test_a_test_that_is_skipped_on_one_cpu_counts_as_failed_as_officially(
    stand: Open, hidden: Open, gold: str
) -> None:
    """pytest prints a skipped test without its id, so it is missing: rows need the cores that they were made with."""
    cores = "len(os.sched_getaffinity(0)) < 2"
    more = f"\n\n@pytest.mark.skipif({cores}, reason='2 or more cores')\ndef test_cores():\n    pass\n"
    assert (await stand().grade(hidden(more, "test_cores"), gold)).reason == "resolved"
    one = f"taskset -c {min(os.sched_getaffinity(0))} pytest -rA {PATH}"
    grade = await stand().grade(hidden(more, "test_cores", command=one), gold)
    assert (grade.reason, grade.official) == ("tests_regress", None)
    assert grade.results.pass_to_pass == {OLD: "PASSED", f"{PATH}::test_cores": "MISSING"}
    assert f"SKIPPED [1] {PATH}:" in grade.run.output


NAMED = (
    "\n\n@pytest.mark.parametrize('sides', [(2, 3), (4, 4)], ids=['sides of two', 'sides of four'])\n"
    "def test_named(sides):\n    assert perimeter(*sides) == 2 * sum(sides)\n"
)
CUT = ("test_named[sides",)
WHOLE = ("test_named[sides of two]", "test_named[sides of four]")


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("parser", "names", "reason"),
    [
        ("parse_log_pytest", CUT, "resolved"),
        ("parse_log_pytest_v2", WHOLE, "resolved"),
        ("parse_log_pytest", WHOLE, "tests_regress"),
    ],
)
async def test_ids_with_spaces_are_those_of_the_rows_own_parser(
    stand: Open, hidden: Open, gold: str, parser: str, names: tuple[str, ...], reason: str
) -> None:
    grade = await stand().grade(hidden(NAMED, *names, log_parser=parser), gold)
    assert (grade.reason, grade.official) == (reason, None)


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_one_failing_sibling_fails_a_cut_id(stand: Open, hidden: Open, diff: Open) -> None:
    regressing = diff({"shapes/__init__.py": FIXED.replace("2 * (width + height)", "10")})
    grade = await stand().grade(hidden(NAMED, *CUT), regressing)
    assert (grade.reason, grade.official) == ("tests_regress", None)


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_what_equals_everything_is_no_fix_whatever_a_parameter_is_called(
    stand: Open, published: Open, gold: str, diff: Open
) -> None:
    """The false test is the function of that name, not the words of its parameter; the id is cut inside of it."""
    names = "['two::three', 'two::three a b']"
    tests = (
        "import pytest\n\nfrom shapes import area\n\n\n"
        f"@pytest.mark.parametrize('sides', [(2, 3), (2, 3)], ids={names})\n"
        "def test_sides(sides):\n    assert area(*sides) == 6\n"
    )
    lists = {
        "FAIL_TO_PASS": [f"{PATH}::test_sides[two::three a"],
        "PASS_TO_PASS": [],
        "log_parser": "parse_log_pytest_v2",
    }
    row = published(gold, {PATH: tests}, f"pytest -rA {PATH}", **lists)
    anything = "class Any(int):\n    def __eq__(self, other):\n        return True\n\n\n"
    bent = diff({"shapes/__init__.py": anything + FIXED.replace("width * height", "Any(0)")})
    assert (await stand().grade(row, gold)).reason == "resolved"
    assert (await stand().grade(row, bent)).reason == "tests_forged"


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_an_id_that_is_no_test_is_matched_as_officially(stand: Open, hidden: Open, gold: str) -> None:
    more = "\n\ndef test_progress():\n    print('PASSED   [100%]')\n"
    row = hidden(more, PASS_TO_PASS=[OLD, "[100%]"])
    grade = await stand().grade(row, gold)
    assert (grade.reason, grade.official) == ("resolved", None)


RUNNER = (
    "import sys, unittest\nsys.path[:0] = ['.', 'tests']\nunittest.main(None, argv=['runtests', '-v', *sys.argv[3:]])\n"
)
DOCUMENTED = (
    "import unittest\n\nimport shapes\n\n\nclass Tests(unittest.TestCase):\n"
    '    def test_area(self):\n        """The area is a product."""\n        self.assertEqual(shapes.area(2, 3), 6)\n\n'
    '    def test_below(self):\n        """\n        The second line tells.\n        """\n\n'
    "    def test_perimeter(self):\n        self.assertEqual(shapes.perimeter(2, 3), 10)\n"
)
HERE_IDS = ["The second line tells.", "test_perimeter (test_doc.Tests.test_perimeter)"]
OLDER_IDS = ["test_below (test_doc.Tests)", "test_perimeter (test_doc.Tests)"]


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("kept", "reason"), [(HERE_IDS, "resolved"), (OLDER_IDS, "tests_regress")])
async def test_docstring_ids_need_the_interpreter_that_they_were_made_with(
    stand: Open, published: Open, gold: str, kept: list[str], reason: str
) -> None:
    """`OLDER_IDS` are what Python 3.6 calls the same tests: all pass, and the row is officially unresolved."""
    tests = {"tests/runtests.py": RUNNER, "tests/test_doc.py": DOCUMENTED}
    lists = {"FAIL_TO_PASS": ["The area is a product."], "PASS_TO_PASS": kept, "log_parser": "parse_log_django"}
    row = published(gold, tests, "python tests/runtests.py --verbosity 2 test_doc", **lists)
    grade = await stand().grade(row, gold)
    assert (grade.reason, grade.official) == (reason, None), grade
    assert "OK" in grade.run.output or grade.run.sentinel is not None


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_a_log_that_shows_the_whole_repository_is_never_read(stand: Open, hidden: Open, diff: Open) -> None:
    """`git show` of a root commit prints every file: officially a marker in one of them decides."""
    row = hidden()
    root = (
        "git checkout -q --orphan root\ngit add -A\ngit -c user.name=a -c user.email=a@b commit -q -m root\ngit show\n"
    )
    shown = {**row, "eval_script": row["eval_script"].replace("git show\n", root)}
    fix = {"shapes/__init__.py": FIXED, "docs/states.txt": ">>>>> Tests Timed Out\n"}
    grade = await stand().grade(shown, diff({**fix, "conftest.py": CONFTEST + "# asks the official procedure\n"}))
    assert (grade.reason, grade.official) == ("resolved", "NOT_FOUND")
    assert "Timed Out" not in grade.run.output
    plain = await stand().grade(row, diff({**fix, "conftest.py": CONFTEST + "# asks the official procedure\n"}))
    assert (plain.reason, plain.official) == ("resolved", None), "an image's last commit is an empty one"


WINDOWS = "\n\ndef test_kept():\n    assert open('shapes/windows.py', 'rb').read().endswith(b\"'right'\\r\\n\")\n"
BINARY = "\n\ndef test_kept():\n    assert open('shapes/logo.bin', 'rb').read() == b'\\0new\\0\\xff'\n"
LATIN = "\n\ndef test_kept():\n    assert b'caf\\xe9' in open('shapes/__init__.py', 'rb').read()\n"


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("script", "more"),
    [
        ("sed -i 's/wrong/right/' shapes/windows.py", WINDOWS),
        ("printf '\\0new\\0\\377' > shapes/logo.bin", BINARY),
        ("(printf '# coding: latin-1\\n# caf\\351\\n'; cat shapes/__init__.py) > x; mv x shapes/__init__.py", LATIN),
        (f"git mv {PATH} tests/moved.py; git -c user.name=a -c user.email=a@b commit -qam moved", ""),
        (f"rm {PATH}", ""),
    ],
    ids=["crlf", "binary", "latin-1", "renamed test", "removed test"],
)
async def test_what_an_agent_leaves_is_graded_byte_for_byte(stand: Open, hidden: Open, script: str, more: str) -> None:
    opened = stand()
    grade = await opened.grade(hidden(more, *(["test_kept"] if more else [])), await work(opened, FIX + script))
    assert (grade.reason, grade.official) == ("resolved", None), grade


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_build_products_are_no_part_of_the_patch(stand: Open, hidden: Open) -> None:
    build = (
        "mkdir -p build/lib/shapes shapes.egg-info\ncp shapes/*.py build/lib/shapes\n"
        "echo 'Name: shapes' > shapes.egg-info/PKG-INFO\npython -m compileall -q shapes\npython -m pytest -q tests\n"
        "printf '\\177ELF' > shapes/_fast.cpython-311-x86_64-linux-gnu.so\nprintf o > shapes/_fast.o\n"
    )
    opened = stand()
    patch = await work(opened, FIX + build)
    assert [part.path for part in sections(patch)] == ["shapes/__init__.py"]
    assert (await opened.grade(hidden(), patch)).reason == "resolved"


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_the_environment_of_tests_is_the_same_everywhere(stand: Open, hidden: Open, gold: str) -> None:
    more = (
        "\n\ndef test_frozen():\n    import site, time\n\n    names = ('TZ', 'LANG', 'PYTHONHASHSEED', 'PYTHONPATH')\n"
        "    assert [os.environ.get(name) for name in names] == ['UTC', 'C.UTF-8', None, None]\n"
        "    assert time.tzname == ('UTC', 'UTC')\n    assert os.listdir(os.environ['HOME']) == []\n"
        "    assert not os.path.exists(site.getusersitepackages())\n"
    )
    grade = await stand().grade(hidden(more, "test_frozen"), gold)
    assert grade.reason == "resolved", grade.run


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("network", "reason"), [("blackhole", "resolved"), ("none", "tests_regress")])
async def test_packets_vanish_where_the_row_says_so(
    stand: Open, hidden: Open, gold: str, network: str, reason: str
) -> None:
    more = (
        "\n\ndef test_vanish():\n    import socket\n\n    with pytest.raises(TimeoutError):\n"
        "        socket.create_connection(('10.255.255.1', 80), timeout=0.3)\n"
    )
    row = hidden(more, "test_vanish")
    grade = await stand().grade({**row, "paddock": {**row["paddock"], "network": network}}, gold)
    assert (grade.reason, grade.official) == (reason, None)


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_an_installation_from_an_index_is_left_out_where_the_tree_is_in_place(
    stand: Open, hidden: Open, gold: str
) -> None:
    row = hidden()
    installing = row["eval_script"].replace("git status\n", "python -m pip install -e '.[dev]' nothing-of-that-name\n")
    grade = await stand().grade({**row, "eval_script": installing}, gold)
    assert (grade.reason, grade.official) == ("resolved", None)


@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
async def test_a_patch_that_breaks_the_import_of_a_conftest_applies_and_fails(
    stand: Open, published: Open, diff: Open, gold: str
) -> None:
    tests = {PATH: TESTS, "tests/conftest.py": "import shapes\n"}
    row = published(gold, tests, f"pytest -rA {PATH}", FAIL_TO_PASS=[AREA], PASS_TO_PASS=[OLD])
    opened = stand()
    for broken in ("import no_such_module\n", "def (:\n"):
        grade = await opened.grade(row, diff({"shapes/__init__.py": broken + FIXED}))
        assert (grade.reason, grade.official, grade.results.doubt) == ("tests_fail", None, "nothing_ran")
