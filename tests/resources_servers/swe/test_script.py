"""Claims about an instance's tests as shell programs. The programs are run by a real bash."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import RowError
from paddock.resources_servers.swe.grading.official_run import whole_script
from paddock.resources_servers.swe.grading.script import read_script
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows.scripts import adapt

OFFICIAL = """#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen
export LANG=en_US.UTF-8
git config --global --add safe.directory /testbed
cd /testbed
git status
git show
git -c core.fileMode=false diff 5f7a3a74aab1625c2bb65f643197ee885e3da576
python -m pip install -e '.[dev]'
git checkout 5f7a3a74aab1625c2bb65f643197ee885e3da576 tests/test_a.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_a.py b/tests/test_a.py
+: '>>>>> Start Test Output'
EOF_114329324912
: '>>>>> Start Test Output'
pytest -rA tests/test_a.py
: '>>>>> End Test Output'
git checkout 5f7a3a74aab1625c2bb65f643197ee885e3da576 tests/test_a.py
"""


def instance(**fields: Any) -> SweInstance:
    base = {"instance_id": "a__b-1", "dataset": "swe_bench", "problem_statement": "x", "image": "i", "gold_patch": b"x"}
    return SweInstance.model_validate({**base, **fields})


def test_git_lines_and_the_test_patch_are_left_out() -> None:
    script = read_script(instance(eval_script=OFFICIAL))
    assert script.tests == ("pytest -rA tests/test_a.py",)
    assert script.setup == (
        "set -uo pipefail",
        "source /opt/miniconda3/bin/activate",
        "conda activate testbed",
        "cd /testbed",
        "export LANG=en_US.UTF-8",
        "git config --global --add safe.directory /testbed",
        "cd /testbed",
    )
    assert script.install is not None
    assert "python -m pip install" in script.install
    assert "EOF" not in script.install


def test_a_script_for_a_recipes_image_installs_nothing_in_place() -> None:
    adapted = adapt(OFFICIAL, install="python -m pip install -q --no-deps --no-index -e .", recipe=True)
    script = read_script(instance(eval_script=adapted))
    assert script.install is None
    assert script.setup[:2] == ("set -uo pipefail", ". /opt/venv/bin/activate")
    assert "export LANG=C.UTF-8" in script.setup


def test_a_tree_that_is_not_installed_in_place_is_installed_again() -> None:
    again = "python -m pip install -q --no-deps --no-index --no-build-isolation ."
    script = read_script(instance(eval_script=adapt(OFFICIAL, install=again, recipe=True)))
    assert again in (script.install or "")


def test_without_a_recipe_an_installation_needs_no_index() -> None:
    plain = OFFICIAL.replace("-e '.[dev]'", ".")
    assert "pip install . --no-build-isolation --no-deps --no-index\n" in adapt(plain, install=None, recipe=False)
    assert "pip install" not in adapt(OFFICIAL, install=None, recipe=False)


def test_adapting_leaves_the_tests_alone() -> None:
    tests = OFFICIAL.replace("pytest -rA", "pip install -e . && pytest -rA")
    assert "pip install -e . && pytest -rA" in adapt(tests, install=None, recipe=True)


def test_only_the_test_command_is_heard_and_the_exit_status_is_its_own(tmp_path: Path) -> None:
    noisy = "echo loud; echo louder >&2; export WORD=said"
    script = read_script(instance(eval_script=f"{noisy}\n: '>>>>> Start Test Output'\necho $WORD; false\n"))
    done = subprocess.run(["bash", "-c", script.test_program()], cwd=tmp_path, capture_output=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (b"said\n", b"", 1)


def test_an_own_command_runs_in_the_tree(tmp_path: Path) -> None:
    own = instance(test_command="pwd; exit 3", workdir=str(tmp_path))
    done = subprocess.run(["bash", "-c", read_script(own).test_program()], cwd="/", capture_output=True, check=False)
    assert (done.stdout.decode().strip(), done.returncode) == (str(tmp_path), 3)


def test_a_script_without_a_start_marker_is_the_rows_fault() -> None:
    with pytest.raises(RowError, match="Start Test Output"):
        read_script(instance(eval_script="pytest"))


def test_the_official_script_records_its_exit_status_on_this_images_commit() -> None:
    lines = whole_script(OFFICIAL).split("\n")
    end = lines.index(": '>>>>> End Test Output'")
    assert lines[end - 1] == "SWEBENCH_TEST_EXIT_CODE=$?"
    assert lines[end + 1] == 'echo ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"'
    assert "git checkout HEAD tests/test_a.py" in lines
    assert "EOF_114329324912" in lines
