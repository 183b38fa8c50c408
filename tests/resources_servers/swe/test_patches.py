"""Claims about splitting patches and about who owns which path."""

import random

import pytest

from paddock.resources_servers.swe.grading.guard import Guard
from paddock.resources_servers.swe.grading.patches import join, sections


def section(path: str, *, new: bool = False, body: str = "@@ -1 +1 @@\n-a\n+b\n") -> str:
    mode, old = ("new file mode 100644\n", "/dev/null") if new else ("", f"a/{path}")
    return f"diff --git a/{path} b/{path}\n{mode}--- {old}\n+++ b/{path}\n{body}"


def kept(guard: Guard, patch: str) -> str:
    return guard.split(patch.encode()).applied.decode()


TESTS = Guard(["tests/test_a.py", "testing/test_b.py", "lib/testing/data/test_c.py"])


@pytest.mark.parametrize(
    "patch",
    [
        section("a.py") + section("b/c.py"),
        "prose before\n\n" + section("a.py") + "\n\n",
        section("a.py").replace("\n", "\r\n"),
        section("a.py")[:-1],
        "diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n" + section("a.py"),
        "no patch at all",
        "",
        section("a.py", body="@@ -1,9 +1,9 @@\n-a\n") + section("b.py"),
    ],
)
def test_the_parts_of_a_patch_are_the_patch(patch: str) -> None:
    assert join(sections(patch.encode())) == patch.encode()


NAMES = (
    *(b"a/x.py", b"b/x.py", b"a/.", b".", b"..", b"/", b"a/", b"", b"/dev/null", b"a/tests/test_a.py", b"b/\xff\xfe"),
    *(b'"a/\\303\\251"', b'"b/\\777"', b'"', b'""', b"a/x\0y.py", b".py", b"a/__init__.py", b"a//x.py"),
    *(b"a/pytest.ini", b"b/pyproject.toml", b"a/setup.cfg", b"tox.ini", b"a/conftest.py", b"x.egg-info/"),
)
TEXTS = (
    *(
        b"[pytest]",
        b"[tool:pytest]",
        b"[tool.pytest.ini_options]",
        b"addopts = -p plug.x -W error::a.B -o addopts='-p y'",
    ),
    *(
        b"addopts=[",
        b"addopts = " + b"[" * 3000,
        b"x=" + b"9" * 5000,
        b"python_files = *a*[z-a]*[ [!] [",
        b"addopts = '-p",
    ),
    *(
        b"filterwarnings = error::::",
        b"[",
        b"]",
        b"= ",
        b":",
        b"a={b={",
        b"'''",
        b"\tx",
        b"@file",
        b"addopts = @a/x.py",
    ),
    *(b"pytest_plugins = ['a' 'b', \"\\x\", u'\\ud800', f'{x}'", b"pytest_plugins = " + b"(" * 500, b"\x0c\0\x1a"),
)
COUNTS = (b"1", b"0,0", b"1,3", b"9" * 30 + b",1", b"1," + b"9" * 18, b"1," + b"9" * 5000)
HEADS = (
    *(
        b"new file mode 100644",
        b"new file mode 120000",
        b"rename from ",
        b"deleted file mode 100644",
        b"GIT binary patch",
    ),
    *(b"*** Begin Patch", b"\\ No newline at end of file", b"", b"junk", b"\r", b"\0"),
)


def line(chance: random.Random) -> bytes:
    """One line of a patch, or of what looks like one."""
    name, count = chance.choice(NAMES), chance.choice(COUNTS)
    named = chance.choice((b"--- ", b"+++ ", b"rename to ", b"Index: ", b"*** ", b"diff --git " + name + b" ")) + name
    hunk = b"@@ -" + count + b" +" + chance.choice(COUNTS) + b" @@"
    text = chance.choice((b"+", b"+", b" ", b"-")) + chance.choice(TEXTS)
    return chance.choices((named, hunk, chance.choice(HEADS), text), (4, 1, 1, 8))[0]


@pytest.mark.slow
def test_no_patch_makes_the_guard_fail() -> None:
    configs = {"pyproject.toml": b"[tool.pytest.ini_options]\naddopts='-x'\n", "pytest.ini": b"[pytest]\n"}
    guard = Guard({"tests/test_a.py"}, hidden=["hidden"], plugins={"plug"}, configs=configs)
    chance = random.Random(5)
    for _ in range(500):
        patch = b"\n".join(line(chance) for _ in range(chance.randrange(1, 25)))
        split = guard.split(patch)
        assert len(split.applied) <= len(split.whole) <= len(patch)
        assert join(sections(patch)) == patch


def test_a_header_of_a_megabyte_is_read_at_once() -> None:
    """A search for two names in it would take hours: the time limit of all tests tells."""
    (found,) = sections(b"diff --git a/" + b"b " * 500_000 + b"y\n")
    assert found.paths


def test_a_removed_line_that_looks_like_a_header_starts_no_section() -> None:
    body = "@@ -1,3 +1,3 @@\n--- a/conftest.py\n+++ b/conftest.py\n x\n y\n"
    assert [part.path for part in sections(section("query.sql", body=body).encode())] == ["query.sql"]


def test_a_plain_diff_after_a_hunk_is_a_section_of_its_own() -> None:
    patch = section("a.py") + "--- a/conftest.py\n+++ b/conftest.py\n@@ -0,0 +1 @@\n+x\n"
    assert kept(TESTS, patch) == section("a.py")


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ('diff --git "a/caf\\303\\251.py" "b/caf\\303\\251.py"\nold mode 100644\nnew mode 100755\n', "café.py"),
        ("diff --git a/a b.py b/a b.py\nold mode 100644\nnew mode 100755\n", "a b.py"),
        ("diff --git a/old.py b/tests/test_a.py\nrename from old.py\nrename to tests/test_a.py\n", "tests/test_a.py"),
        ("--- lib/x.py\t2020-01-01\n+++ lib/y.py\t2020-01-01\n@@ -1 +1 @@\n-a\n+b\n", "lib/y.py"),
        ("*** lib/x.py\n--- lib/y.py\n***************\n", "lib/x.py"),
    ],
)
def test_every_name_of_a_section_is_known(patch: str, path: str) -> None:
    assert path in sections(patch.encode())[0].paths


def test_a_section_is_as_guarded_as_its_most_guarded_name() -> None:
    hidden = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/conftest.py\n@@ -1 +1 @@\n-a\n+b\n"
    assert kept(TESTS, hidden) == ""


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_a.py",
        "conftest.py",
        "deep/down/conftest.py",
        "sitecustomize.py",
        "usercustomize.py",
        "x.pth",
        "lib.egg-info/entry_points.txt",
        ".git/config",
        "tests/data/expected.json",
        "lib/tests/helper.py",
        "testing/helper.py",
        "lib/testing/data/golden.txt",
        "lib/test_more.py",
        "lib/more_test.py",
        "web/app.test.js",
    ],
)
def test_the_reference_owns_tests_and_what_runs_before_them(path: str) -> None:
    split = TESTS.split(section(path).encode())
    assert split.applied == b""
    assert [one.path for one in split.dropped] == [path]


@pytest.mark.parametrize(
    "path",
    [
        "lib/core.py",
        "django/test/client.py",
        "lib/testing.py",
        "setup.cfg",
        "pytest.ini",
        "tox.ini",
        "attestation.py",
        "docs/tests.rst",
    ],
)
def test_source_and_configuration_stay_as_the_agent_left_them(path: str) -> None:
    assert kept(TESTS, section(path)) == section(path)


def test_a_path_that_the_fix_changes_is_no_test_whatever_its_name() -> None:
    fix = section("lib/tests/helper.py") + section("conftest.py")
    guard = Guard(["tests/test_a.py"], fix=fix.encode())
    assert kept(guard, section("lib/tests/helper.py")) == section("lib/tests/helper.py")
    assert kept(guard, section("conftest.py")) == ""


def test_a_new_module_in_the_runners_place_is_not_applied() -> None:
    assert kept(TESTS, section("pytest.py", new=True)) == ""
    assert kept(TESTS, section("src/pytest/new.py", new=True)) == section("src/pytest/new.py", new=True)
    assert kept(TESTS, section("_pytest/runner.py")) == section("_pytest/runner.py")


def test_what_a_row_hides_is_the_references() -> None:
    guard = Guard(["r2e_tests/test_1.py"], hidden=["run_tests.sh", "r2e_tests"])
    assert kept(guard, section("run_tests.sh", new=True) + section("r2e_tests/x.txt", new=True)) == ""


DEFINES = "@@ -0,0 +1,2 @@\n+def test_it():\n+    pass\n"
HELPS = "@@ -0,0 +1,2 @@\n+def mode():\n+    return 'r'\n"
TREE = Guard(["tests/test_a.py"], collected=["tests/test_a.py", "lib/test_more.py"], plugins=["pytester"])


def importing(line: str) -> str:
    return section("lib/core.py", body=f"@@ -1 +1,2 @@\n a\n+{line}\n")


@pytest.mark.parametrize(
    "patch",
    [
        section("lib/test_support.py", new=True, body=HELPS),
        section("aiohttp/test_utils.py"),
        importing("from lib.test_more import mode") + section("lib/test_more.py", new=True, body=DEFINES),
        importing("    test_modes,") + section("lib/test_modes.py", new=True, body=DEFINES),
        importing("from .tests.modes import mode") + section("lib/tests/modes.py", new=True, body=HELPS),
        importing("from .tests import mode") + section("lib/tests/__init__.py", new=True, body=HELPS),
        importing("open('lib/tests/modes.json')") + section("lib/tests/modes.json", new=True, body=HELPS),
        importing("from .tests.a import b")
        + section("lib/tests/a.py", new=True, body="@@ -0,0 +1 @@\n+from .b import b\n")
        + section("lib/tests/b.py", new=True, body=HELPS),
    ],
)
def test_code_of_the_project_stays_whatever_it_is_called(patch: str) -> None:
    split = TREE.split(patch.encode())
    assert (split.applied.decode(), split.dropped) == (patch, [])


@pytest.mark.parametrize(
    ("patch", "owned"),
    [
        (section("lib/test_more.py"), True),
        (section("lib/test_new.py", new=True, body=DEFINES), True),
        (importing("# see modes") + section("tests/modes.py", new=True, body=HELPS), False),
        (section("astropy/tests/runner.py"), False),
        (section("src/_pytest/pytester.py"), False),
        (section("lib/pytester.py", new=True, body=HELPS), True),
    ],
)
def test_what_may_be_the_projects_is_in_the_second_try(patch: str, owned: bool) -> None:
    split = TREE.split(patch.encode())
    assert [one.owned for one in split.dropped] == [owned]
    assert split.whole.decode() == (split.applied.decode() if owned else patch)
