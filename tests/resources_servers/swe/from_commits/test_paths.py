"""Which paths are tests."""

import pytest

from paddock.resources_servers.swe.from_commits import is_test, split_paths


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_a.py",
        "src/pkg/tests/data/big.json",
        "test_a.py",
        "pkg/a_test.py",
        "pkg/tests.py",
        "conftest.py",
        "pkg/conftest.py",
        "web/a.test.ts",
        "web/a.spec.mjs",
        "go/berth_test.go",
        "Tests/Data/x",
        "pkg/testing/helpers.py",
    ],
)
def test_these_are_tests_by_their_names(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize(
    "path", ["pkg/testimony.py", "contest.py", "src/latest/a.py", "docs/testing.md", "attest.py", "pkg/test", "spec.md"]
)
def test_these_are_not(path: str) -> None:
    assert not is_test(path)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("checks", "checks/a/b.py", "checks2/a.py"),
        ("checks/", "checks/a.py", "a/checks/b.py"),
        ("src/*.check.py", "src/a.check.py", "src/b/a.check.py"),
        ("src/**/*.check.py", "src/b/c/a.check.py", "lib/a.check.py"),
        ("src/**/*.check.py", "src/a.check.py", "src/a-check.py"),
        ("./one.py", "one.py", "two.py"),
        ("**/golden", "a/b/golden/x", "a/golden.py"),
    ],
)
def test_patterns_replace_the_names(pattern: str, inside: str, outside: str) -> None:
    assert is_test(inside, [pattern])
    assert not is_test(outside, [pattern])
    assert not is_test("tests/test_a.py", [pattern])


def test_split_keeps_the_order_and_loses_nothing() -> None:
    paths = ["b.py", "tests/b.py", "a.py", "tests/a.py"]
    assert split_paths(paths) == (["b.py", "a.py"], ["tests/b.py", "tests/a.py"])
