"""Claims about rows of every form: what becomes of their fields, and what is said of rows that can't be used."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from paddock.errors import RowError
from paddock.resources_servers.swe import official
from paddock.resources_servers.swe.grading import official_run
from paddock.resources_servers.swe.grading.script import read_script
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import read
from paddock.types import JsonObject, Row

PATCH = "diff --git a/lib/a.py b/lib/a.py\n--- a/lib/a.py\n+++ b/lib/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
TEST_PATCH = "".join(
    PATCH.replace("lib/a.py", path) for path in ("tests/test_a.py", "tests/data.json", "tests/sub/test_b.py")
)
SECRETS = ("FAIL_TO_PASS", "PASS_TO_PASS", "patch", "test_patch", "hints_text", "eval_script", "test_files")
RECIPE = {"sdist": "lib==1.0", "sdist_sha256": "0" * 64, "python": "3.11", "pip": [], "install": "pip install -e ."}


def from_task(task: JsonObject, params: JsonObject | None = None) -> SweInstance:
    return read(Row.from_wire({"responses_create_params": params or {"input": []}, **task}))


def swe_bench(**fields: Any) -> JsonObject:
    row = {
        "instance_id": "pallets__flask-1",
        "repo": "pallets/flask",
        "base_commit": "a" * 40,
        "version": "2.0",
        "patch": PATCH,
        "test_patch": TEST_PATCH,
        "problem_statement": "It breaks.\r\nReally.",
        "hints_text": "change x to 2",
        "environment_setup_commit": "b" * 40,
        "FAIL_TO_PASS": '["tests/test_a.py::test_new"]',
        "PASS_TO_PASS": '["tests/test_a.py::test_old"]',
        "eval_script": ": '>>>>> Start Test Output'\npytest -rA tests/test_a.py\n: '>>>>> End Test Output'\n",
        "log_parser": "parse_log_flask",
        "eval_type": "pass_and_fail",
        "image": "swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest",
    }
    return {**row, **fields}


def older(**fields: Any) -> JsonObject:
    gone = ("eval_script", "log_parser", "eval_type", "image")
    return {key: value for key, value in swe_bench(**fields).items() if key not in gone or key in fields}


def swe_gym(**fields: Any) -> JsonObject:
    row = older(repo="getmoto/moto", instance_id="getmoto__moto-1", FAIL_TO_PASS=["a::b"], PASS_TO_PASS=["a::c"])
    del row["environment_setup_commit"]
    return {**row, **fields}


def r2e(**fields: Any) -> JsonObject:
    def change(path: str, old: str | None, new: str | None) -> JsonObject:
        return {"header": {"file": {"path": path}}, "old_file_content": old, "new_file_content": new}

    commit = {
        "file_diffs": [
            change("lib/a.py", "x = 1\n", "x = 2\n"),
            change("lib/new.py", None, "y = 1"),
            change("lib/tests/test_a.py", "old\n", "hidden\n"),
            change("README.md", "a\n", "b\n"),
        ]
    }
    results = {
        "test_file_names": ["test_1.py"],
        "test_file_codes": ["def test_new(): ..."],
        "old_commit_res_stdout": "== short test summary info ==\nFAILED r2e_tests/test_1.py::test_new - no",
    }
    row = {
        "repo_name": "tornado",
        "docker_image": "namanjain12/tornado_final:abc",
        "commit_hash": "abc",
        "parsed_commit_content": json.dumps(commit),
        "execution_result_content": json.dumps(results),
        "expected_output_json": json.dumps({"test_new": "PASSED"}),
        "problem_statement": "[ISSUE]\nIt breaks.\n[/ISSUE] (made by a model)",
    }
    return {**row, **fields}


def swe2(dataset_name: str, source: JsonObject) -> JsonObject:
    metadata = {
        "instance_id": "x__y-1",
        "dataset_name": dataset_name,
        "problem_statement": "It breaks.",
        "golden_patch": PATCH,
        "instance_dict": json.dumps(source),
    }
    return {"input": [], "metadata": metadata}


def internal(**fields: Any) -> JsonObject:
    row = {
        "base_commit": "a" * 40,
        "image": "internal/x:1",
        "base_dockerfile": "FROM x\nENV A=1\nENV B 2\n",
        "instance_dockerfile": 'ENV A="3"',
        "before_repo_set_cmd": "git reset --hard\ngit checkout abc -- tests/test_a.py\n",
        "selected_test_files_to_run": "['tests/test_a.py', 'tests/test b.py']",
        "run_script.sh": "pytest -rA $1",
        "parsing_script.py": "print(1)",
        "fail_to_pass": "['test_new']",
        "pass_to_pass": '["test_old"]',
    }
    return {**row, **fields}


def own(**fields: Any) -> JsonObject:
    row = {
        "instance_id": "shapes__area-1",
        "problem_statement": "area is wrong",
        "build": RECIPE,
        "workdir": "/testbed",
        "patch": PATCH,
        "test_files": {"tests/test_a.py": "def test_new(): ...\r\n"},
        "test_command": "pytest -rA tests/test_a.py",
        "FAIL_TO_PASS": ["tests/test_a.py::test_new"],
        "PASS_TO_PASS": [],
        "env": {"A": "1"},
        "network": "blackhole",
    }
    return {**row, **fields}


def test_a_swe_bench_row_is_taken_as_published() -> None:
    made = from_task(swe_bench())
    assert (made.dataset, made.image) == ("swe_bench", "swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest")
    assert (made.fail_to_pass, made.pass_to_pass) == (["tests/test_a.py::test_new"], ["tests/test_a.py::test_old"])
    assert (made.gold_patch, made.test_patch) == (PATCH.encode(), TEST_PATCH.encode())
    assert made.log_parser == "parse_log_flask"
    assert made.build is None


def test_lists_may_be_lists_or_json_text() -> None:
    assert from_task(swe_bench(FAIL_TO_PASS=["a"])).fail_to_pass == ["a"]


def test_a_recipe_on_an_official_row_is_built_under_the_instances_name() -> None:
    made = from_task(
        swe_bench(paddock={**RECIPE, "test_cmd": "x", "network": "blackhole 10.0.0.0/8", "env": {"A": "1"}})
    )
    assert made.build is not None
    assert (made.build.sdist, made.image, made.network, made.env) == (
        "lib==1.0",
        "pallets__flask-1",
        "blackhole",
        {"A": "1"},
    )


def test_an_older_row_gets_the_official_command_parser_and_image() -> None:
    made = from_task(older())
    assert "\npytest -rA tests/test_a.py tests/sub/test_b.py\n" in (made.eval_script or "")
    assert made.image == "swebench/sweb.eval.x86_64.pallets_1776_flask-1:latest"
    django = from_task(older(repo="django/django"))
    assert "--parallel 1 test_a sub.test_b\n" in (django.eval_script or "")
    assert django.log_parser == "parse_log_django"


NEW_FILE = "diff --git a/tests/new.py b/tests/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/new.py\n"
WITH_NEW = PATCH.replace("lib/a.py", "tests/test_a.py") + NEW_FILE + "@@ -0,0 +1 @@\n+x = 1\n"


@pytest.mark.parametrize("row", [older(test_patch=WITH_NEW), swe_gym(test_patch=WITH_NEW)], ids=["older", "gym"])
def test_a_made_script_places_the_test_patch_as_the_official_one_does(row: JsonObject) -> None:
    made = from_task(row)
    assert official_run.has_procedure(made)
    lines = (made.eval_script or "").split("\n")
    assert lines.count("git checkout HEAD tests/test_a.py") == 2, "a file that is new is not reset"
    start = next(index for index, line in enumerate(lines) if line.startswith("git apply -v - <<"))
    assert "\n".join(lines[start + 1 :]).startswith(row["test_patch"])
    assert "git" not in " ".join(read_script(made).setup), "the grader places the files itself"


def test_an_older_row_of_an_unknown_repository_says_what_it_lacks() -> None:
    with pytest.raises(RowError, match=r"eval_script: missing, and no test command is known for x/y.*test_cmd"):
        from_task(older(repo="x/y"))
    with pytest.raises(RowError, match="log_parser: missing"):
        from_task(older(repo="x/y", test_cmd="pytest -rA"))
    made = from_task(older(repo="x/y", test_cmd="pytest -rA t.py", log_parser="parse_log_pytest"))
    assert "\npytest -rA t.py\n" in (made.eval_script or "")


@pytest.mark.parametrize("form", [older, swe_bench])
def test_an_image_of_a_recipe_runs_what_tox_would(form: Callable[..., JsonObject]) -> None:
    """tox finds nothing of a virtual environment that it did not make; the official images have none."""
    tox = "tox --current-env -epy39 -v -- tests/test_a.py tests/sub/test_b.py"
    given = {"eval_script": f": '{official.START}'\n{tox}\n: '{official.END}'\n"} if form is swe_bench else {}
    row = form(repo="sphinx-doc/sphinx", log_parser="parse_log_pytest_v2", **given)
    assert tox in str(from_task(row).eval_script).splitlines()
    script = str(from_task({**row, "paddock": RECIPE}).eval_script)
    assert "tox" not in script
    assert "python -X dev -m pytest -rA --durations 25 tests/test_a.py tests/sub/test_b.py" in script.splitlines()


def test_a_swe_gym_row_gets_its_repositorys_command() -> None:
    made = from_task(swe_gym())
    assert (made.dataset, made.log_parser) == ("swe_gym", "parse_log_pytest")
    assert made.image == "xingyaoww/sweb.eval.x86_64.getmoto_s_moto-1:latest"
    assert "\npytest -n0 -rA tests/test_a.py tests/sub/test_b.py\n" in (made.eval_script or "")
    assert "\npytest -rA\n" not in (from_task(swe_gym(repo="Project-MONAI/MONAI")).eval_script or "")


def test_mypy_is_run_by_the_names_of_its_cases() -> None:
    cases = PATCH.replace("lib/a.py", "test-data/unit/check.test") + " [case testOne]\n+[case testTwo]\n-[case gone]\n"
    made = from_task(swe_gym(repo="python/mypy", test_patch=cases))
    assert '\npytest -n0 -rA -k "testOne or testTwo"\n' in (made.eval_script or "")


def test_an_r2e_row_gives_a_diff_of_its_sources_its_hidden_tests_and_its_map() -> None:
    made = from_task(r2e())
    assert made.problem_statement == "It breaks."
    assert made.gold_patch.count(b"diff --git") == 2
    assert b"new file mode" in made.gold_patch
    assert b"\\ No newline at end of file" in made.gold_patch
    assert b"hidden" not in made.gold_patch
    assert set(made.test_files) == {"r2e_tests/__init__.py", "r2e_tests/test_1.py"}
    assert (made.rule, made.expected, made.before) == ("map", {"test_new": "PASSED"}, {"test_new": "FAILED"})
    assert "/testbed/r2e_tests" in made.hidden_paths
    assert made.instance_id == "tornado-abc"


def test_swe2_rows_are_read_by_the_exact_name_of_their_data_set() -> None:
    made = from_task({}, swe2("princeton-nlp/SWE-bench_Verified", older()))
    assert (made.instance_id, made.dataset) == ("pallets__flask-1", "swe_bench")
    assert from_task({}, swe2("SWE-Gym/SWE-Gym", swe_gym())).dataset == "swe_gym"
    assert from_task({}, swe2("R2E-Gym/R2E-Gym-Subset", r2e())).dataset == "r2e_gym"
    with pytest.raises(RowError, match="nearest: 'R2E-Gym/R2E-Gym-Subset'"):
        from_task({}, swe2("R2E-Gym/R2E-Gym-Subsets", r2e()))


@pytest.mark.parametrize("name", ["SWE-bench/SWE-bench_Live", "ScaleAI/SWE-bench_Verified_Pro", "x/SWE-smith"])
def test_another_data_set_is_not_sent_to_a_wrong_grader(name: str) -> None:
    with pytest.raises(RowError, match="has no adapter; its rows may need a grader of their own; known: ") as caught:
        from_task({}, swe2(name, swe_bench()))
    assert "nearest" not in str(caught.value)


def test_multilingual_rows_are_read_in_the_wrapper_as_outside_of_it() -> None:
    row = swe_bench(repo="x/y", language="go", log_parser="parse_log_gotest")
    assert from_task({}, swe2("SWE-bench/SWE-bench_Multilingual", row)) == from_task(row)
    with pytest.raises(RowError, match="eval_script: missing"):
        from_task({}, swe2("SWE-bench/SWE-bench_Multilingual", older(repo="x/y")))


def rebench(**config: Any) -> JsonObject:
    given = {"test_cmd": "pytest -x MINE", "log_parser": "parse_log_pytest_v2", "env_vars": {"A": "1"}, **config}
    return older(install_config=given, docker_image="swerebench/sweb.eval.x86_64.pallets_1776_flask-1")


def test_a_swe_rebench_row_gets_its_own_command_parser_and_image() -> None:
    for made in (from_task(rebench()), from_task({}, swe2("nebius/SWE-rebench", rebench()))):
        assert (made.dataset, made.log_parser, made.env) == ("swe_rebench", "parse_log_pytest_v2", {"A": "1"})
        assert made.image == "swerebench/sweb.eval.x86_64.pallets_1776_flask-1:latest"
        assert "\npytest -x MINE tests/test_a.py tests/sub/test_b.py\n" in (made.eval_script or "")
    unnamed = {key: value for key, value in rebench().items() if key != "docker_image"}
    assert from_task(unnamed).image == "swerebench/sweb.eval.x86_64.pallets_1776_flask-1:latest"


def test_a_swe_gym_row_may_say_its_parser() -> None:
    assert from_task(swe_gym(log_parser="parse_log_pytest_v2")).log_parser == "parse_log_pytest_v2"


ASSETS = {"test_patch": [{"path": "a.png", "url": "x"}], "patch": []}


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (swe_gym(test_cmd="go test", log_parser="parse_log_gotest", language="go"), "a row of SWE-rebench V2"),
        (older(install_config={"docker_specs": {}, "test_cmd": "pytest"}), "a row of SWE-rebench V2.*log_parser"),
        (swe_gym(test_cmds=["pytest -rA"], log_parser="parse_log_pytest"), "log_parser: needs `pytest`"),
        (swe_bench(image_assets=json.dumps(ASSETS)), "image_assets: a SWE-bench Multimodal row"),
        (swe_bench(image_assets=ASSETS), "image_assets: a SWE-bench Multimodal row"),
        (rebench(test_cmd=None), "install_config.test_cmd: missing"),
        (rebench(log_parser="parse_log_mine"), "install_config.log_parser: no parser 'parse_log_mine'.*there are: "),
        (swe_gym(log_parser="parse_log_mine"), "log_parser: no parser 'parse_log_mine'"),
    ],
)
def test_a_row_of_another_data_set_is_refused_by_its_name(task: JsonObject, said: str) -> None:
    with pytest.raises(RowError, match=said):
        from_task(task)


def test_a_multimodal_row_without_files_from_elsewhere_is_read() -> None:
    assert from_task(swe_bench(image_assets='{"test_patch": [], "patch": []}')).dataset == "swe_bench"


def test_an_internal_row_brings_its_own_programs() -> None:
    made = from_task({}, swe2("nv-internal-1", internal()))
    assert (made.workdir, made.rule) == ("/app", "passed")
    assert made.test_setup == "git checkout abc -- tests/test_a.py"
    assert made.test_command is not None
    assert made.test_command.endswith("run_script.sh 'tests/test_a.py,tests/test b.py'")
    assert (made.fail_to_pass, made.pass_to_pass) == (["test_new"], ["test_old"])
    assert made.env == {"A": "3", "B": "2"}
    assert made.log_program == b"print(1)"
    chosen = from_task({}, swe2("nv-internal-1", internal(fail_to_pass_select="['other']")))
    assert chosen.fail_to_pass == ["other"]


def test_text_that_python_would_run_is_not_run() -> None:
    with pytest.raises(RowError, match="selected_test_files_to_run"):
        from_task({}, swe2("nv-internal-1", internal(selected_test_files_to_run="__import__('os').listdir('.')")))


def test_an_own_row_says_everything_once() -> None:
    made = from_task(own())
    assert made.test_files == {"tests/test_a.py": b"def test_new(): ...\r\n"}
    assert (made.network, made.env, made.image) == ("blackhole", {"A": "1"}, "shapes__area-1")
    assert from_task(own(build=None, image="shapes:1")).image == "shapes:1"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a\r\nb\n", b"a\r\nb\n"),
        ("caf\udce9\n", b"caf\xe9\n"),
        ("base64:Y2Fm6Qo=", b"caf\xe9\n"),
    ],
)
def test_patches_become_bytes_without_loss(text: str, data: bytes) -> None:
    assert from_task(own(patch=text)).gold_patch == data


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({}, "of no known form"),
        ({"instance_id": "a"}, "of no known form"),
        ({**swe_bench(), "test_command": "pytest"}, "`test_command` .*and `eval_script`"),
        (swe_bench(patch=None), "patch: missing"),
        (swe_bench(patch=3), "patch: needs a non-empty string"),
        (swe_bench(FAIL_TO_PASS="[1]"), "FAIL_TO_PASS: needs a list of strings"),
        (swe_bench(FAIL_TO_PASS="tests"), "FAIL_TO_PASS: not JSON"),
        (swe_bench(eval_type="some"), "eval_type: needs one of pass_and_fail, fail_only"),
        (swe_bench(paddock=[]), "paddock: needs an object"),
        (swe_bench(paddock={"python": "2.7"}), "paddock: "),
        (swe_bench(paddock={**RECIPE, "network": "open"}), "network: needs one of none, blackhole"),
        (swe_gym(repo="x/y"), "no test command is known for x/y"),
        (r2e(execution_result_content="{}"), "test_file_names"),
        (r2e(parsed_commit_content="{}"), "file_diffs"),
        (r2e(expected_output_json="[]"), "needs a JSON object"),
        (own(build=None), "image: missing"),
        (own(build={"python": "3.11"}), "build: "),
        (own(build={**RECIPE, "pips": []}), "build: .*pips"),
        (own(test_files={}), "test_files: missing"),
        (own(test_files={"../x": ""}), "no path below"),
        (own(patch="base64:###"), "base64"),
    ],
)
def test_a_row_that_cannot_be_used_says_which_key_and_why(task: JsonObject, said: str) -> None:
    with pytest.raises(RowError, match=said):
        from_task(task)


@pytest.mark.parametrize("form", [swe_bench, older, swe_gym, r2e, own])
def test_no_row_shows_an_agent_a_hidden_field(form: Callable[..., JsonObject]) -> None:
    made = from_task(form())
    shown = json.dumps(made.visible())
    assert set(made.visible()) == {"instance_id", "problem_statement", "repo", "language", "workdir"}
    for hidden in ("x = 2", "test_new", "change x to 2", "test_1.py", *(f'"{key}"' for key in SECRETS)):
        assert hidden not in shown
