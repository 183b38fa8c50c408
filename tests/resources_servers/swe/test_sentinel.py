"""Claims about the sentinel. Its files are run by the real pytest and the real unittest."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sampling import few

from paddock.resources_servers.swe import swebench_logs
from paddock.resources_servers.swe.grading.sentinel import Sentinel, draw, take_out
from paddock.resources_servers.swe.grading.vocabulary import SPARE, NameVocabulary

TESTS = frozenset({"tests/test_a.py", "tests/migrations/test_writer.py", "tests/forms/tests/tests.py"})
WORDS = NameVocabulary({"tests/test_a.py": b"def test_plain_total(basket):\n    assert total(basket) == prices\n"})
COMMAND = "pytest -rA tests/test_a.py"


def drawn(command: str = COMMAND, seed: int = 1) -> Sentinel:
    sentinel = draw(command, TESTS, vocabulary=WORDS, chance=random.Random(seed))
    assert sentinel is not None
    return sentinel


def run_pytest(
    sentinel: Sentinel, folder: Path, *options: str, ini: str = "", configuration: str = "pytest.ini"
) -> tuple[dict[str, str], str, int]:
    (folder / "tests").mkdir()
    (folder / configuration).write_text(ini or "[pytest]\n")
    (folder / "tests/test_a.py").write_text("def test_old():\n    pass\n")
    (folder / sentinel.path).write_bytes(sentinel.source)
    words = sentinel.command.split()
    done = subprocess.run(
        [sys.executable, "-m", *words, *options],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return swebench_logs.parse("parse_log_pytest", done.stdout), done.stdout, done.returncode


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_an_honest_run_gives_each_test_its_status_and_the_sentinel_is_taken_out(tmp_path: Path, seed: int) -> None:
    sentinel = drawn(seed=seed)
    status, output, code = run_pytest(sentinel, tmp_path)
    result = take_out(sentinel, status, output, code)
    assert result.complaint is None
    assert result.status == {"tests/test_a.py::test_old": "PASSED"}


@pytest.mark.parametrize(
    "option",
    few(
        ["-x", "--maxfail=1", "--stepwise", "--sw", "--stepwise-skip", "--sw-skip", "--stepwise-reset"],
        ["-x", "--stepwise-reset"],
    ),
)
def test_a_configuration_that_stops_at_failures_stops_at_none_of_the_sentinels(tmp_path: Path, option: str) -> None:
    sentinel = drawn()
    status, output, code = run_pytest(sentinel, tmp_path, ini=f"[pytest]\naddopts = {option}\n")
    result = take_out(sentinel, status, output, code)
    assert result.complaint is None
    assert result.status == {"tests/test_a.py::test_old": "PASSED"}


STEPWISE = {
    "tox.ini": "[pytest]\naddopts = --stepwise\n",
    "setup.cfg": "[tool:pytest]\naddopts = --stepwise\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--stepwise'\n",
}


@pytest.mark.parametrize("configuration", few(STEPWISE, ["pyproject.toml"]))
def test_nor_does_it_in_another_file(tmp_path: Path, configuration: str) -> None:
    sentinel = drawn()
    status, output, code = run_pytest(sentinel, tmp_path, ini=STEPWISE[configuration], configuration=configuration)
    assert take_out(sentinel, status, output, code).complaint is None


def test_a_hook_that_passes_every_test_is_seen(tmp_path: Path) -> None:
    forger = (
        "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
    )
    (tmp_path / "conftest.py").write_text(forger)
    sentinel = drawn()
    status, output, code = run_pytest(sentinel, tmp_path)
    assert take_out(sentinel, status, output, code).complaint is not None


def test_tests_that_are_only_set_up_are_seen(tmp_path: Path) -> None:
    sentinel = drawn()
    status, output, code = run_pytest(sentinel, tmp_path, "--setup-plan")
    assert take_out(sentinel, status, output, code).complaint is not None


def test_an_exit_status_that_a_failing_test_cannot_give_is_seen(tmp_path: Path) -> None:
    sentinel = drawn()
    status, output, _ = run_pytest(sentinel, tmp_path)
    assert "exit status is 0" in (take_out(sentinel, status, output, 0).complaint or "")


def test_djangos_runner_gets_a_label(tmp_path: Path) -> None:
    sentinel = drawn("./tests/runtests.py --verbosity 2 --parallel 1 migrations.test_writer")
    name = Path(sentinel.path).stem
    assert sentinel.path == f"tests/migrations/{name}.py"
    assert sentinel.command.endswith(f" migrations.{name}")
    (tmp_path / f"{name}.py").write_bytes(sentinel.source)
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "-v", name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    status = swebench_logs.parse("parse_log_django", done.stderr)
    result = take_out(sentinel, {**status, "test_old (a.B)": "PASSED"}, done.stderr, done.returncode)
    assert result.complaint is None
    assert result.status == {"test_old (a.B)": "PASSED"}


def test_a_module_named_tests_gets_its_sentinel_beside_it() -> None:
    assert drawn("./tests/runtests.py forms.tests.tests").path.startswith("tests/forms/tests/test_")


def test_a_folder_of_tests_gets_its_sentinel_inside() -> None:
    assert drawn("X='a,b' python -W ignore -m pytest -rA r2e_tests").path.startswith("r2e_tests/test_")


@pytest.mark.parametrize(
    "command",
    [
        "pytest tests/test_a.py",
        "pytest -rA",
        'pytest -n0 -rA -k "a or b" tests/test_a.py',
        "pytest -rA -x tests/test_a.py",
        "pytest -rA --stepwise tests/test_a.py",
        "pytest -rA tests/test_a.py | tee log",
        "pytest -rA tests/test_a.py; true",
        "pytest -rA $FILES",
        "tox --current-env -epy39 -v -- tests/test_a.py",
        "bin/test -C --verbose sympy/core/tests/test_basic.py",
        "./tests/runtests.py --verbosity 2 unknown_label",
        "pytest -rA 'tests/test_a.py",
    ],
)
def test_where_there_is_no_room_for_one_there_is_none(command: str) -> None:
    assert draw(command, TESTS, vocabulary=WORDS, chance=random.Random(1)) is None


def test_no_two_draws_are_alike() -> None:
    chance = random.Random(7)
    sources = {
        one.source
        for one in (draw(COMMAND, TESTS, vocabulary=WORDS, chance=chance) for _ in range(20))
        if one is not None
    }
    assert len(sources) == 20


def test_names_are_of_the_instances_own_words_and_of_no_list_of_ours() -> None:
    text = b"def test_discount_of_baskets(till):\n    pass\n\n\ndef test_rounded_prices_cents():\n    pass\n"
    vocabulary = NameVocabulary({"checks/test_total_money.py": text}, ["checks/test_coins.py"])
    words = {"discount", "baskets", "rounded", "prices", "cents", "total", "money", "coins", "of"}
    chance = random.Random(3)
    for _ in range(50):
        name = vocabulary.name(chance, "test_")
        assert set(name.removeprefix("test_").split("_")) <= words
        assert not set(name.split("_")) & set(SPARE)


def test_a_name_is_no_part_of_what_the_row_has() -> None:
    ids = ["checks/test_b.py::test_total_total_more", "test_money_total"]
    vocabulary = NameVocabulary({"checks/test_total.py": b"def test_money(): ...\n" * 9}, ids=ids)
    chance = random.Random(3)
    names = {vocabulary.name(chance, "test_") for _ in range(200)}
    assert len(names) > 20
    assert not [name for name in names if any(name in one for one in ids)]


def test_tests_without_words_get_some() -> None:
    assert NameVocabulary({}).name(random.Random(1)).split("_")[0] in SPARE
