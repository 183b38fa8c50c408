"""Claims about listings: the same entries of the same directory are the same, whatever lists them."""

from collections.abc import Callable
from typing import Any

import pytest

Call = tuple[str, dict[str, Any]]


def view(path: str, *lines: int) -> Call:
    return "str_replace_editor", {"command": "view", "path": path} | ({"view_range": list(lines)} if lines else {})


def sh(command: str, **more: Any) -> Call:
    return "execute_bash", {"command": command, **more}


SAME = [
    (sh("ls -R /w/pkg/a.py"), sh("ls -la /w/pkg/a.py")),
    (sh("ls /w/conf.d"), sh("ls /w/conf.d/")),
    (sh("ls /w/pkg"), sh("ls -la /w/pkg")),
    (sh("ls -la /w/pkg"), sh("ls /w/pkg/")),
    (sh("ls -la /w/pkg"), sh("cd /w && ls -1 --color=never pkg")),
    (sh("ls -lah"), sh("ls -F .")),
    (sh("ls /w/pkg"), sh("ls -lt /w/pkg")),
    (sh("ls -a"), sh("ls -la")),
    (sh("ls -a"), sh("find . -maxdepth 1")),
    (sh("ls /w/pkg"), sh("find /w/pkg -maxdepth 1 -mindepth 1 | sort")),
    (sh("ls /w/pkg"), sh("tree -L 1 /w/pkg")),
    (sh("ls /w/pkg"), sh("ls /w/pkg | head -50")),
    (sh("ls /w/pkg"), sh("pwd && ls /w/pkg 2>/dev/null || true")),
    (sh("ls -R src"), sh("tree src")),
    (sh("ls -R src"), sh("find src")),
    (sh("find src -type f"), sh("find src -type f -not -path '*/.git/*' -not -name '*.pyc' | sort")),
    (sh("find src -type f"), sh("tree -a src -I '__pycache__|.git'")),
    (sh("find src -type f"), sh("find src -type f | head -200")),
    (sh("find src -type d"), sh("tree -d src")),
    (sh("find . -maxdepth 2 -type f"), sh("find -maxdepth 2 -type f")),
    (sh("ls src/*.py"), sh("cd src && ls *.py")),
    (sh("ls -d */"), sh("ls -ld */")),
    (sh("ls src tests"), sh("ls tests; ls -l src")),
    (view("/w/pkg"), sh("ls /w/pkg")),
    (view("/w/pkg"), sh("find /w/pkg -maxdepth 2 -not -path '*/.*'")),
    (view("/w"), sh("cd /w && ls -la")),
    (sh("ls /w/pkg"), view("/w/pkg/")),
    (view("/w/pkg"), ("list", {"path": "/w/pkg"})),
    (("list_dir", {"dir_path": "/w/pkg"}), sh("tree -L 2 /w/pkg")),
    (sh("ls /w/pkg"), ("list_directory", {"path": "/w/pkg"})),
    (view("/w/python3.11"), sh("ls /w/python3.11")),
    (view("/w/.github"), sh("ls /w/.github")),
]
DIFFERENT = [
    (sh("ls /w/pkg/a.py"), sh("ls /w/pkg/a.py/")),
    (sh("ls -R /w/pkg/a.py"), sh("cd /w && ls -R pkg/a.py/")),
    (sh("ls -l /w/pkg/a.py"), sh("ls -l /w/pkg/b.py")),
    (sh("ls /w/pkg.egg-info"), sh("ls -R /w/pkg.egg-info")),
    (sh("ls /w/.cache"), sh("ls -R /w/.cache")),
    (sh("ls"), sh("cd src; ls")),
    (sh("ls src"), sh("cd src && ls src")),
    (sh("ls /w/pkg"), sh("ls /w")),
    (sh("ls /w/pkg"), sh("ls /w/pkg/sub")),
    (sh("ls /w/pkg"), sh("ls -R /w/pkg")),
    (sh("ls /w/pkg"), sh("find /w/pkg")),
    (sh("ls /w/pkg"), sh("ls -d /w/pkg")),
    (sh("ls /w/pkg"), sh("ls /w/pkg/*.py")),
    (sh("ls /w/pkg"), sh("ls /w/pkg/*")),
    (sh("ls /w/pkg"), sh("ls -I '*.py' /w/pkg")),
    (sh("ls /w/pkg"), sh("ls /w/pkg /etc")),
    (sh("ls /w/pkg"), sh("ls /w/pkg; rm -rf /w/pkg")),
    (sh("ls /w/pkg"), sh("ls /w/pkg > files.txt")),
    (sh("ls /w/pkg"), sh("ls /w/pkg | wc -l")),
    (sh("ls /w/pkg"), sh("ls /w/pkg | grep py")),
    (sh("ls /w/pkg"), sh("ls /w/pkg | head -3")),
    (sh("ls /w/pkg"), sh("ls /w/pkg | tail -20")),
    (sh("ls /w/pkg"), sh("ls -t /w/pkg | head -20")),
    (sh("ls /w/pkg"), sh("ls /w/pkg | xargs rm")),
    (sh("ls /w/pkg"), sh("ls /w/pkg", timeout=0.001)),
    (sh("ls /w/pkg"), sh("cat /w/pkg")),
    (sh("ls /w/pkg"), sh("echo /w/pkg/*")),
    (sh("ls -a"), sh("ls")),
    (sh("ls *.py"), sh("ls *.pyx")),
    (sh("ls src/*.py"), sh("ls *.py")),
    (sh("ls -d */"), sh("ls")),
    (sh("find src -type f"), sh("find src -type d")),
    (sh("find src -type f"), sh("find src -type f -delete")),
    (sh("find src -type f"), sh("find src -type f -exec rm {} +")),
    (sh("find src -type f"), sh("find src -type f -newer a")),
    (sh("find src -type f"), sh("find src -type f -not -path '*/lib/*'")),
    (sh("find src -type f"), sh("find src -type f | head -5")),
    (sh("find src -type f"), sh("find src -maxdepth 1 -type f")),
    (sh("find src -type f"), sh("find src -name '*.py'")),
    (sh("find src -maxdepth 1 -type f"), sh("find src -maxdepth 1")),
    (sh("tree -L 2"), sh("tree -L 3")),
    (sh("tree src"), sh("tree -P '*.py' src")),
    (view("/w/pkg"), sh("ls -R /w/pkg")),
    (view("/w/pkg"), sh("ls /w/other")),
    (view("/w/pkg"), sh("find /w/pkg -maxdepth 3")),
    (view("/w/pkg/io.py"), sh("ls /w/pkg/io.py")),
    (sh("ls /w/pkg/io.py"), view("/w/pkg/io.py")),
    (view("/w/pkg", 1, 20), sh("ls /w/pkg")),
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_listings_of_the_same_entries_are_the_same(score: Callable[..., Any], expected: Call, actual: Call) -> None:
    assert score(expected, actual).reward == 1


@pytest.mark.parametrize(("expected", "actual"), DIFFERENT)
def test_a_listing_of_something_else_is_not_the_same(score: Callable[..., Any], expected: Call, actual: Call) -> None:
    assert score(expected, actual).reward == 0
