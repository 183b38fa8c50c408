"""Claims about modules that a patch has pytest load: left out in whatever spelling, while honest edits stay."""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.resources_servers.swe.grading.guard import Guard
from paddock.resources_servers.swe.grading.pytest_settings import listed_plugins, read_settings
from paddock.types import JsonObject

CONFIGS = {
    "pytest.ini": b"[pytest]\naddopts = -q\n    -p lib.own\nmarkers =\n    slow\n",
    "pyproject.toml": b'[tool.pytest.ini_options]\naddopts = [\n  "-q",\n  "-v",\n  "-s",\n  "-l",\n]\n',
}
GUARD = Guard(["tests/test_a.py"], configs=CONFIGS, plugins=["lib.own"])
PLUGIN, IMPORTED = "pytest plugin", "imported by pytest's configuration"


def new(path: str, text: str, mode: str = "100644") -> str:
    lines = text.splitlines()
    body = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n{body}"


def changed(path: str, body: str = "@@ -1 +1 @@\n-a\n+b\n") -> str:
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{body}"


def dropped(patch: str) -> list[tuple[str, str, bool]]:
    return [(one.path, one.reason, one.owned) for one in GUARD.split(patch.encode()).dropped]


FX = new("lib/_fx.py", "import _pytest\n")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (new("tox.ini", "[pytest]\naddopts = -p lib._fx\n"), PLUGIN),
        (new("tox.ini", "[pytest]\naddopts = -plib._fx\n"), PLUGIN),
        (new("tox.ini", '[pytest]\naddopts = -p "li"b._fx\n'), PLUGIN),
        (new("tox.ini", "[pytest]\naddopts: -p\n  li\\b._fx\n"), PLUGIN),
        (new("setup.cfg", "[tool:pytest] ; of pytest\naddopts =\n # why\n  -q\n\n  -p lib._fx\n"), PLUGIN),
        (new("sub/pytest.ini", "[pytest]\naddopts = -p _fx\n"), PLUGIN),
        (new("sub/pyproject.toml", '[tool.pytest.ini_options]\naddopts = ["-p", "\\u006cib._fx"]\n'), PLUGIN),
        (new("sub/pyproject.toml", "[tool.pytest]\naddopts = ['-plib._fx']\n"), PLUGIN),
        (new("sub/pyproject.toml", "tool.pytest.ini_options.addopts = '-p lib._fx'\n"), PLUGIN),
        (new("pytest.toml", '[pytest]\naddopts = ["-p", "lib._fx"]\n'), PLUGIN),
        (new(".pytest.toml", '[pytest]\nfilterwarnings = ["error::lib._fx.W"]\n'), IMPORTED),
        (new("tox.ini", "[pytest]\nfilterwarnings = ignore::lib._fx.W\n"), IMPORTED),
        (new("tox.ini", "[pytest]\nfilterwarnings =\n  default\n  error:it is:lib._fx.W\n"), IMPORTED),
        (new("tox.ini", "[pytest]\naddopts = -Werror::lib._fx.W\n"), IMPORTED),
        (new("tox.ini", "[pytest]\naddopts = -o 'filterwarnings=error::lib._fx.W'\n"), IMPORTED),
        (new("tox.ini", "[pytest]\naddopts = @args.txt\n") + new("args.txt", "-p\nlib._fx\n"), PLUGIN),
        (new("tox.ini", "[testenv]\ncommands = python -m pytest -p lib._fx {posargs}\n"), PLUGIN),
        (new("tox.ini", "[testenv]\nsetenv =\n  PYTEST_PLUGINS=lib._fx\n"), PLUGIN),
        (new("setup.cfg", "[options.entry_points]\npytest11 =\n  fx = lib._fx\n"), PLUGIN),
        (new("sub/pyproject.toml", '[project.entry-points.pytest11]\nfx = "lib._fx"\n'), PLUGIN),
        (new("tox.ini", "notes.txt", "120000") + new("notes.txt", "[pytest]\naddopts = -p lib._fx\n"), PLUGIN),
        (new("lib/test_x.py", 'pytest_plugins = ["li" "b._fx"]\n'), PLUGIN),
        (changed("pytest.ini", "@@ -3,2 +3,3 @@\n     -p lib.own\n+    -p lib._fx\n markers =\n"), PLUGIN),
        (changed("pyproject.toml", '@@ -4,2 +4,3 @@\n   "-v",\n+  "-p", "\\u006cib._fx",\n   "-s",\n'), PLUGIN),
        (changed("pyproject.toml", '@@ -4,2 +4,3 @@\n   "-Q",\n+  "-p", "\\u006cib._fx",\n   "-s",\n'), PLUGIN),
        (changed("unseen/tox.ini", "@@ -4,2 +4,3 @@\n   -v\n+  -p lib._fx\n   -s\n"), PLUGIN),
    ],
)
def test_a_new_module_that_a_patch_has_pytest_load_is_left_out(config: str, reason: str) -> None:
    assert dropped(config + FX) == [("lib/_fx.py", reason, True)]


def test_so_is_the_new_package_of_such_a_module() -> None:
    assert dropped(new("tox.ini", "[pytest]\naddopts = -p lib.fx.made\n") + new("lib/fx/__init__.py", "")) == [
        ("lib/fx/__init__.py", PLUGIN, True)
    ]


@pytest.mark.parametrize(
    "path", ["forge-1.0.dist-info/entry_points.txt", "Forge-1.0.DIST-INFO/entry_points.txt", "x.Egg-Info/PKG-INFO"]
)
def test_entry_points_of_a_distribution_in_the_tree_run_before_tests(path: str) -> None:
    assert dropped(new(path, "[pytest11]\nfx = lib._fx\n")) == [(path, "runs before tests", True)]


def test_files_that_a_patch_has_pytest_collect_are_tests_where_they_define_some() -> None:
    config = new("tox.ini", "[pytest]\npython_files = test_*.py check_*.py\n")
    tests, helper = new("lib/check_it.py", "def test_it():\n    pass\n"), new("lib/check_sum.py", "def sum(): pass\n")
    assert dropped(config + tests + helper) == [("lib/check_it.py", "test", True)]
    assert dropped(tests + helper) == []


@pytest.mark.parametrize(
    "patch",
    [
        changed("pytest.ini", "@@ -4,2 +4,3 @@\n markers =\n     slow\n+    quick: less than a second\n"),
        changed(
            "pytest.ini", "@@ -1,2 +1,3 @@\n [pytest]\n+filterwarnings = error::DeprecationWarning\n addopts = -q\n"
        ),
        new("tox.ini", "[pytest]\naddopts = -ra --strict-markers -p no:cacheprovider -W error\n") + FX,
        new("tox.ini", "[pytest]\nfilterwarnings = ignore::lib.errors.Old\n") + changed("lib/errors.py"),
        new("tox.ini", "[pytest]\nfilterwarnings = ignore::lib.errors.Old\n")
        + changed("lib/core.py", "@@ -1 +1,2 @@\n a\n+from lib.errors import Old\n")
        + new("lib/errors.py", "class Old(Warning): pass\n"),
        new("tox.ini", "[testenv]\ncommands = mkdir -p lib/_fx\n") + FX,
        new("tox.ini", "[pytest]\n# addopts = -p lib._fx\n") + FX,
        new("docs/pytest.rst", "addopts = -p lib._fx\n") + FX,
        new("sub/pyproject.toml", '[tool.other]\naddopts = "-p lib._fx"\n') + FX,
        new("forge-1.0.dist-info/METADATA", "Name: forge\n"),
    ],
)
def test_an_honest_edit_stays(patch: str) -> None:
    split = GUARD.split(patch.encode())
    assert (split.applied.decode(), split.dropped) == (patch, [])


def test_a_plugin_that_the_reference_has_is_only_doubted_though_its_line_is_changed() -> None:
    line = changed("pytest.ini", "@@ -1,3 +1,3 @@\n [pytest]\n-addopts = -q\n+addopts = -v\n     -p lib.own\n")
    assert dropped(line + changed("lib/own.py")) == [("lib/own.py", PLUGIN, False)]


@pytest.mark.parametrize("name", ["tox.ini", "pyproject.toml", "setup.cfg", "README.md"])
@pytest.mark.parametrize(
    "text", ["", "[", "=", " x", "[pytest\n", '[pytest]\naddopts = "-p', "tool = 3", "pytest = [1]", "\0"]
)
def test_what_can_t_be_read_loads_nothing(name: str, text: str) -> None:
    for whole in (True, False):
        assert not read_settings(name, text, whole=whole).categories


def test_plugins_that_code_lists_are_its_strings() -> None:
    assert listed_plugins("pytest_plugins = ['a.b', \"c\"]\nother = 'd'\n") == {"a.b", "c"}
    assert listed_plugins("pytest_plugins = (\n    'a'  # one\n    '.b',\n)\nprint 'old'\n") == {"a.b"}
    assert listed_plugins("pytest_plugins = 'a, b'\n") == {"a", "b"}
    assert listed_plugins("pytest_plugins = b'a' 'b'\nx = (") == {"b"}
    assert listed_plugins("x\npytest_plugins = ['a\0', \0'b']\n  \x0c\0\x1a\n") == {"a", "b"}
    assert listed_plugins("x = 1\rß\rpytest_plugins = 'a'\r\n") == {"a"}


FORGER = """from _pytest import reports
made = reports.TestReport.from_item_and_call.__func__
def forged(cls, item, call):
    report = made(cls, item, call)
    report.outcome, report.longrepr = "passed", None
    return report
reports.TestReport.from_item_and_call = classmethod(forged)
class W(Warning):
    pass
"""


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pytest.ini", '[pytest]\naddopts = -p "shap"es._fx\n'),
        pytest.param(
            "pyproject.toml",
            '[tool.pytest.ini_options]\naddopts = ["-p", "\\u0073hapes._fx"]\n',
            marks=pytest.mark.long,
        ),
        pytest.param("pytest.ini", "[pytest]\nfilterwarnings = ignore::shapes._fx.W\n", marks=pytest.mark.long),
        ("forge-1.0.dist-info/entry_points.txt", "[pytest11]\nfx = shapes._fx\n"),
    ],
    ids=["shell", "toml", "warnings", "distribution"],
)
async def test_no_spelling_has_a_forger_run(
    stand: Callable[..., Any], published: Callable[..., JsonObject], diff: Callable[..., str], path: str, text: str
) -> None:
    tests = {"tests/test_area.py": "from shapes import area\n\n\ndef test_area():\n    assert area(2, 3) == 6\n"}
    gold = diff({"shapes/__init__.py": "def area(width, height):\n    return width * height\n"})
    lists = {"FAIL_TO_PASS": ["tests/test_area.py::test_area"], "PASS_TO_PASS": []}
    row = published(gold, tests, "pytest -rA tests/test_area.py", **lists)
    files = {"shapes/_fx.py": FORGER, path: text}
    if "dist-info" in path:
        files["forge-1.0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: forge\nVersion: 1.0\n"
    grade = await stand(official=False).grade(row, diff(files))
    left_out = path if "dist-info" in path else "shapes/_fx.py"
    assert (grade.reason, [one.path for one in grade.dropped]) == ("tests_fail", [left_out]), grade
