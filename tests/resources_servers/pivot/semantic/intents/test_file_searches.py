"""Claims about searches for files by name."""

from collections.abc import Callable
from typing import Any

import pytest

Score = Callable[..., Any]


def same(score: Score, expected: Any, actual: Any) -> bool:
    def call(action: Any) -> Any:
        return ("bash", {"command": action}) if isinstance(action, str) else action

    return bool(score(call(expected), call(actual), cwd="/repo").reward == 1.0)


SEARCH = "find . -type f -name '*.toml'"
GLOB = ("glob", {"pattern": "**/*.toml"})
SAME = [
    ("find lib -name shelf.py", "find lib -type f -name 'shelf.py'"),
    (SEARCH, "find /repo -name '*.toml' -type f"),
    (SEARCH, "find . -name '*.toml'"),
    (SEARCH, "find -name '*.toml' 2>/dev/null | sort"),
    (SEARCH, "find . -type f | grep '\\.toml$'"),
    (SEARCH, "find . -name '*.toml' -not -path '*/node_modules/*'"),
    (SEARCH, "find . -name '*.toml' ! -path './.git/*' | head -50"),
    (SEARCH, "git ls-files '*.toml'"),
    (SEARCH, "rg --files -g '*.toml'"),
    (SEARCH, "rg --files | grep '\\.toml$'"),
    (SEARCH, GLOB),
    (GLOB, SEARCH),
    ("find src -name '*.toml'", "find . -name '*.toml'"),
    ("find . -name '*shelf*.py'", "find . -name '*.py' | grep shelf"),
    ("find . -iname '*shelf*.py'", "find . -name '*.py' | grep -i shelf"),
    ("git ls-files | grep shelf", "rg --files | grep shelf"),
    ("find . -name '*.py' | grep -v tests", "git ls-files '*.py' | grep -v tests"),
    ("find . -name '*.py' | wc -l", "git ls-files '*.py' | wc -l"),
    ("grep -rn --include='*.py' x lib", "find lib -name '*.py' | xargs grep -n x"),
    ("grep -rn 'def read_shelf' lib", "find lib -type f -name '*.py' | xargs grep 'def read_shelf'"),
    (("glob", {"pattern": "src/**/*.py"}), "find src -name '*.py'"),
]
DIFFERENT = [
    ("find lib -name shelf.py", "find lib -type d -name shelf.py"),
    ("find lib -name shelf", "find lib -type f -name shelf"),
    ("find lib -name shelf.egg-info", "find lib -type f -name shelf.egg-info"),
    (SEARCH, "find . -type f -name '*.tom'"),
    (SEARCH, "find . -type d -name '*.toml'"),
    (SEARCH, "find . -type f -not -name '*.toml'"),
    (SEARCH, "find lib -type f -name '*.toml'"),
    (SEARCH, "find / -type f -name '*.toml'"),
    (SEARCH, "find . -type f"),
    (SEARCH, "find . -maxdepth 1 -type f -name '*.toml'"),
    (SEARCH, "find . -type f -name '*.toml' | head -1"),
    (SEARCH, "find . -type f -name '*.toml' | wc -l"),
    (SEARCH, "find . -type f -name '*.toml' | grep -v tests"),
    (SEARCH, "find . -type f -name '*.toml' -delete"),
    (SEARCH, "find . -type f -name '*.toml' -exec rm {} +"),
    (SEARCH, "find . -type f -name '*.toml' -ok rm {} ';'"),
    (SEARCH, "find . -type f -name '*.toml' -fprint found.txt"),
    (SEARCH, "find . -type f -name '*.toml' | xargs rm"),
    (SEARCH, "find . -type f -name '*.toml' > found.txt"),
    (SEARCH, "find . -type f -name '*.toml' -newer a"),
    (SEARCH, "find . -name '*.toml' -o -name '*.py'"),
    (SEARCH, "find . -type f -name '*.toml'; rm -rf lib"),
    (SEARCH, "git ls-files -d '*.toml'"),
    (SEARCH, ("glob", {"pattern": "*.toml"})),
    (SEARCH, ("grep", {"pattern": "*.toml"})),
    ("grep -rn --include='*.py' x lib", "find lib -name '*.js' | xargs grep -n x"),
    ("grep -rn --include='*.py' x lib", "find lib -name '*.py' | xargs sed -i x"),
    ("find . -name shelf", "find . -type f -name shelf"),
    ("find . -name '*shelf*'", "find . -name '*shelf'"),
    ("find . -name '*shelf*'", "find . -iname '*shelf*'"),
    ("find . -name '*.py' | grep -v tests", "find . -name '*.py' | grep tests"),
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_a_search_for_the_same_names_is_the_same(score: Score, expected: Any, actual: Any) -> None:
    assert same(score, expected, actual)


@pytest.mark.parametrize(("expected", "actual"), DIFFERENT)
def test_a_search_for_other_names_or_with_an_action_is_not(score: Score, expected: Any, actual: Any) -> None:
    assert not same(score, expected, actual)
