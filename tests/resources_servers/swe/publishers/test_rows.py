"""Claims about rows of publishers' data sets: what becomes of their fields, and what is said where one is missing."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.resources_servers.swe.publishers import rows
from tests.resources_servers.swe.publishers.rows import BUG, KEPT, OTHER
from tests.resources_servers.swe.test_forms import GOLD, NEW, OLD, TEST_PATCH, edit
from tests.resources_servers.swe.test_run_results import NEED_A_SPEC

from paddock.errors import RowError
from paddock.resources_servers.swe import swebench_logs
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.resources_servers.swe.rows import read
from paddock.resources_servers.swe.rows.families import family_of
from paddock.resources_servers.swe.rows.reversal import reversed_patch
from paddock.resources_servers.swe.swebench_logs import ExpectedTests
from paddock.types import JsonObject, Row

NO_TOOLS = PublisherTools()
EMPTY = PublisherTools(python=Path("/bin/false"), nemo_gym_python=Path("/nowhere/python"))


def from_task(task: JsonObject, tools: PublisherTools, **params: Any) -> SweInstance:
    return read(Row.from_wire({"responses_create_params": {"input": [], **params}, **task}), tools)


@pytest.mark.parametrize("name", rows.FAMILIES)
def test_a_row_is_recognised_by_its_fields_and_by_its_family(name: str) -> None:
    assert family_of(rows.FAMILIES[name]()).name == name
    assert family_of({"family": name}).name == name


def test_a_family_that_there_is_not_is_named() -> None:
    with pytest.raises(RowError, match=r"family: needs one of .*swe_rebench_v2.*got 'swe_bench_max'"):
        from_task({"family": "swe_bench_max"}, NO_TOOLS)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (rows.rebench_v2(), "'parse_log_small' is a parser of SWE-rebench V2's own; name a checkout of SWE-rebench/"),
        (rows.pro(), r"run_script.sh and parser.py of shapes__app-1 are not in the row; name a checkout of scaleapi/"),
        (rows.smith(), "publishers.python: needs swesmith 0.0.9 .*pip install --no-deps swesmith==0.0.9"),
        (rows.multi(), "publishers.python: needs multi-swe-bench 1.1.2 .*pip install --no-deps multi-swe-bench==1.1.2"),
        (rows.ext(), "publishers.nemo_gym_python: needs nemo-gym 0.4.0"),
        (rows.denovoswe(), r"paddock.image: a row of denovoswe, whose published image holds the source"),
    ],
)
def test_a_row_that_lacks_what_is_not_in_it_is_refused_with_what_is_missing(row: JsonObject, said: str) -> None:
    with pytest.raises(RowError, match=said):
        from_task(row, NO_TOOLS)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (rows.rebench_v2(install_config={"test_cmd": []}), "a row of SWE-rebench V2: install_config.test_cmd: "),
        (rows.rebench_v2(repo="shapes"), "a row of SWE-rebench V2: repo: "),
        (rows.rebench_v2(FAIL_TO_PASS=[]), "a row of SWE-rebench V2: FAIL_TO_PASS: "),
        (rows.rebench_v2(FAIL_TO_PASS="not a list"), "FAIL_TO_PASS: .*needs a list"),
        (rows.live(log_parser="print(1)"), "log_parser: needs `pytest`, or a Python program that defines"),
        (rows.live(docker_image="starryzhang/sweb.eval.win.x"), "a Windows image"),
        (rows.live(test_cmds=[]), "a row of SWE-bench-Live: test_cmds: "),
        (rows.pro(instance_id="../../x"), "a row of SWE-bench Pro: instance_id: "),
        (rows.pro(fail_to_pass="[]"), "a row of SWE-bench Pro: fail_to_pass: "),
        (rows.multi(base={}), "a row of Multi-SWE-bench: base.sha: "),
        (rows.multi(f2p_tests={}, n2p_tests={}), "f2p_tests: empty, and so are s2p_tests and n2p_tests"),
        (rows.smith(patch=""), "a row of SWE-smith: patch: "),
        (rows.ext(test_patch=""), "a row of swe-bench-ext: test_patch: "),
        (rows.ext(), "nemo_gym_python: .*No such file"),
        (rows.smith(), "publishers.python: it said nothing"),
        (rows.deepswe(test_patch=None), "a row of deepswe: test_patch: "),
        (rows.denovoswe(passed_ptp=[]), "a row of denovoswe: passed_ptp: "),
    ],
)
def test_a_field_that_its_schema_refuses_is_named(row: JsonObject, said: str) -> None:
    with pytest.raises(RowError, match=said):
        from_task(row, EMPTY)


@pytest.mark.parametrize(
    "files", [{"../x": b""}, {"/etc/x": b""}, {"a": bytes(65 << 20)}], ids=["above", "absolute", "large"]
)
def test_files_of_a_denovoswe_row_stay_below_its_tree(files: dict[str, bytes]) -> None:
    row = rows.denovoswe(paddock={"image": "x:1"}, test_binary_archive_b64=rows.archive(files))
    with pytest.raises(RowError, match="test_binary_archive_b64: "):
        from_task(row, NO_TOOLS)


def test_a_rebench_v2_row_lies_at_its_repository_and_its_names_have_no_times(tools: PublisherTools) -> None:
    made = from_task(rows.rebench_v2(image_name="docker.io/swerebenchv2/a-b:1-c"), tools)
    assert (made.workdir, made.image) == ("/shapes", "swerebenchv2/a-b:1-c")
    assert (made.rule, made.fail_to_pass, made.pass_to_pass) == ("passed", [NEW], [OLD])
    assert made.test_command == "set -e\ncd /shapes\npytest -rA tests/test_new.py"
    with pytest.raises(RowError, match="has no parser 'parse_log_none'"):
        from_task(rows.rebench_v2(install_config={"test_cmd": "x", "log_parser": "parse_log_none"}), tools)


def test_a_live_row_gets_its_publishers_image_and_prints_what_it_says(tools: PublisherTools) -> None:
    made = from_task(rows.live(instance_id="A__b-1"), tools)
    assert made.image == "starryzhang/sweb.eval.x86_64.a_1776_b-1:latest"
    assert (made.log_parser, made.log_program) == ("parse_log_pytest", None)
    program = from_task(rows.live_program(), tools)
    assert program.log_program is not None
    assert (program.test_command or "").endswith("{ cat /tmp/log.txt ; } 2>&1\nexit $status")


def test_a_pro_row_has_scripts_and_variables_of_its_checkout(tools: PublisherTools) -> None:
    made = from_task(rows.pro(), tools)
    assert made.image == "jefzda/sweap-images:shapes.shapes-shapes__shapes-1"
    assert (made.workdir, made.env, made.fail_to_pass) == ("/app", {"SIDES": "4"}, [NEW])
    assert "Requirements:\narea multiplies." in made.problem_statement
    assert "NEW_TESTS" in (made.test_setup or "")
    with pytest.raises(RowError, match=r"run_scripts/other/run_script.sh is not there"):
        from_task(rows.pro(instance_id="other"), tools)


@pytest.mark.slow
def test_a_multi_swe_row_has_image_script_and_parser_of_its_package(packages: Path) -> None:
    made = from_task(rows.multi(), PublisherTools(python=packages))
    assert made.image == "envagent/cs-si_m_eodag:pr-1", "its repository's own namespace"
    assert (made.instance_id, made.workdir, made.repo) == ("CS-SI__eodag-1", "/home/eodag", "CS-SI/eodag")
    assert (made.fail_to_pass, made.pass_to_pass, made.not_failed) == ([NEW, OLD], [KEPT], [OTHER])
    assert made.problem_statement == "area(2, 3) is 5.\n\nIt is 6."
    with pytest.raises(RowError, match=r"multi-swe-bench 1.1.2: Instance .* is not registered"):
        from_task(rows.multi(tag="v0"), PublisherTools(python=packages))


@pytest.mark.slow
def test_a_smith_row_has_its_bug_in_the_tree_and_hides_the_tests_of_the_fix(packages: Path) -> None:
    made = from_task(rows.smith(image_name=""), PublisherTools(python=packages))
    assert made.image == "swebench/swesmith.x86_64.oauthlib_1776_oauthlib.1fd52536:latest"
    assert made.image_patch == BUG.encode()
    assert made.gold_patch == edit("2 * width + height", "2 * (width + height)").encode()
    assert made.hidden_paths == ["/testbed/tests/test_area.py"]
    assert made.reference_paths == ["tests/test_area.py", "tests/test_other.py"]
    tools = PublisherTools(python=packages)
    with pytest.raises(RowError, match=r"the tests of \S+, no Python, are looked for in a clone"):
        from_task(rows.smith(instance_id=_go_id(packages)), tools)
    with pytest.raises(RowError, match=r"has no profile of x__y.00000000"):
        from_task(rows.smith(instance_id="x__y.00000000.bug"), tools)


def _go_id(packages: Path) -> str:
    source = next(packages.parents[1].glob("lib/python3*/site-packages/swesmith/profiles/golang.py")).read_text()
    owner, repo, commit = re.findall(r'(?:owner|repo|commit): str = "(.+)"', source)[:3]
    return f"{owner}__{repo}.{commit[:8]}.bug"


@pytest.mark.parametrize(
    ("dataset", "make"),
    [
        ("deepswe", rows.deepswe),
        ("denovoswe", lambda: rows.denovoswe(paddock={"image": "x:1"})),
        ("SWE-bench-Live/MultiLang", rows.live_program),
        ("nebius/SWE-rebench-V2", lambda: rows.rebench_v2(image_name="x:1")),
        ("ScaleAI/SWE-bench_Pro", rows.pro),
    ],
)
def test_a_row_in_the_nemotron_wrapper_is_read_as_outside_of_it(
    tools: PublisherTools, dataset: str, make: Callable[[], JsonObject]
) -> None:
    row = {"image": "x:1", **make()}
    metadata = {"dataset_name": dataset, "instance_dict": json.dumps(row)}
    assert from_task({}, tools, metadata=metadata) == from_task(row, tools)


@pytest.mark.parametrize("name", rows.FAMILIES)
@pytest.mark.slow
def test_nothing_of_the_answer_is_visible(tools: PublisherTools, packages: Path, nemo_gym: Path, name: str) -> None:
    row = {"image_name": "x:1", "paddock": {"image": "x:1"}, **rows.FAMILIES[name]()}
    shown = json.dumps(from_task(row, tools).visible())
    assert [text for text in (GOLD, TEST_PATCH, NEW, OLD, KEPT, BUG) if json.dumps(text)[1:-1] in shown] == []


def test_a_patch_that_is_turned_round_twice_is_itself_and_undoes_what_it_does() -> None:
    patch = (
        b"diff --git a/a.py b/b.py\nsimilarity index 90%\nrename from a.py\nrename to b.py\nindex 1..2 100644\n"
        b"--- a/a.py\n+++ b/b.py\n@@ -1,3 +1,4 @@ def f\n one\n-two\n+2\n+3\n three\n"
        b"diff --git a/new b/new\nnew file mode 100644\nindex 0..3\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"
        b"\\ No newline at end of file\n"
    )
    turned = reversed_patch(patch)
    assert b"rename from b.py\nrename to a.py\n" in turned
    assert b"deleted file mode 100644\nindex 3..0\n--- a/new\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No" in turned
    assert b"@@ -1,4 +1,3 @@ def f\n one\n-2\n-3\n+two\n three\n" in turned
    assert reversed_patch(turned) == patch
    with pytest.raises(RowError, match="binary"):
        reversed_patch(b"diff --git a/x b/x\nBinary files a/x and b/x differ\n")


@pytest.mark.parametrize(
    ("parser", "instance_id", "version", "inner", "log"),
    [
        ("parse_log_immutable_js", "immutable-js__immutable-js-2006", "", "parse_log_jest", "  \u2713 takes (3 ms)\n"),
        ("parse_log_jekyll", "jekyll__jekyll-9141", "", "parse_log_minitest", "TestA#test_b. 2 tests = 0.01 s = .\n"),
        ("parse_log_lighthouse", "x__y-1", "10.0", "parse_log_lighthouse_mocha", "x"),
    ],
)
def test_a_parser_that_asks_for_the_row_gets_it(
    parser: str, instance_id: str, version: str, inner: str, log: str
) -> None:
    expected = ExpectedTests(instance_id, parser, "pass_and_fail", [], [], version)
    found = swebench_logs.parse(parser, log, expected)
    if inner in swebench_logs.parsers():
        assert found == swebench_logs.parsers()[inner](log, None) != {}
    assert parser not in NEED_A_SPEC or _raises(parser, log), "without it there is nothing to choose by"


def _raises(parser: str, log: str) -> bool:
    try:
        swebench_logs.parsers()[parser](log, None)
    except AttributeError:
        return True
    return False
