"""Claims about searches for text: what finds and shows the same is the same, whatever it is made with."""

from collections.abc import Callable
from typing import Any

import pytest

Score = Callable[..., Any]


def same(score: Score, expected: Any, actual: Any) -> bool:
    def call(action: Any) -> Any:
        return ("bash", {"command": action}) if isinstance(action, str) else action

    return bool(score(call(expected), call(actual), cwd="/repo").reward == 1.0)


SEARCH = "grep -rn read_shelf lib"
TOOL = ("grep", {"pattern": "read_shelf", "path": "lib"})
SAME = [
    (SEARCH, "find lib -type f -exec grep -nH read_shelf {} +"),
    (SEARCH, "find ./lib -exec grep -n read_shelf {} \\;"),
    ("grep -rn read_shelf lib --include='*.py'", "find lib -name '*.py' -exec grep -Hn read_shelf {} \\;"),
    ("grep -n read_shelf lib/a.py", "awk '/read_shelf/ {print FNR\":\"$0}' lib/a.py"),
    ("grep -n read_shelf lib/a.py", 'awk \'/read_shelf/{ print FILENAME ":" NR ": " $0 }\' lib/a.py'),
    (SEARCH, "grep -r read_shelf lib/"),
    (SEARCH, "grep -RnHI --color=never 'read_shelf' /repo/lib"),
    (SEARCH, "cd lib && grep -rn read_shelf ."),
    (SEARCH, "cd lib && grep -rn read_shelf"),
    (SEARCH, "rg read_shelf lib"),
    (SEARCH, "rg -n --no-heading --hidden -e read_shelf lib"),
    (SEARCH, "git grep -n read_shelf lib"),
    (SEARCH, "git grep -n read_shelf -- lib"),
    (SEARCH, "git --no-pager grep read_shelf -- lib"),
    (SEARCH, "git -C lib grep -n read_shelf"),
    (SEARCH, "ag read_shelf lib"),
    (SEARCH, "ack read_shelf lib"),
    (SEARCH, "rg --color never read_shelf lib"),
    ("grep -rn 'ctx.with_limit' lib", "rg 'ctx\\.with_limit' lib"),
    ("grep -rn 'ctx.with_limit' lib", "grep -rnF ctx.with_limit lib"),
    ("grep -rn 'func (c \\*Client) Do' .", "rg 'func \\(c \\*Client\\) Do' -g '*.go'"),
    ("grep -rn 'fn take_all' .", "rg -t rust 'fn take_all'"),
    ("grep -rn -A3 read_shelf lib", "ag -A 3 read_shelf lib"),
    ("grep -rn -C3 read_shelf lib", "ack --context 3 read_shelf lib"),
    (SEARCH, "egrep -rn read_shelf lib"),
    (SEARCH, "grep -rn read_shelf lib | head -50"),
    ("grep -A 3 read_shelf lib/a.py", "grep -A 3 read_shelf lib/a.py | head -40"),
    (SEARCH, "grep -rn read_shelf lib 2>/dev/null | sort"),
    (SEARCH, "grep -rn read_shelf lib | cat"),
    (SEARCH, "grep -rn --exclude-dir=.git --exclude-dir=node_modules read_shelf lib"),
    (SEARCH, "rg read_shelf lib -g '!**/node_modules/**'"),
    (SEARCH, "grep -rn -m 20 read_shelf lib"),
    (SEARCH, "grep -rn read_shelf ."),
    (SEARCH, TOOL),
    (TOOL, SEARCH),
    (TOOL, "rg -n read_shelf lib"),
    (TOOL, ("grep", {"pattern": "read_shelf", "path": "lib", "-n": True, "head_limit": 50})),
    (("grep", {"pattern": "x", "output_mode": "content", "-A": 3}), "grep -rn -A3 x ."),
    (("grep", {"pattern": "x", "output_mode": "files_with_matches"}), "grep -rl x ."),
    (("grep", {"pattern": "x", "-i": True, "output_mode": "content"}), "rg -i x"),
    (("grep", {"pattern": "x", "type": "py"}), "grep -rn --include='*.py' x ."),
    (("grep", {"pattern": "a.b(", "literal": True}), "grep -rnF 'a.b(' ."),
    ("grep -rn --include='*.py' x .", "rg -t py x"),
    ("grep -rn --include='*.py' x .", "rg x -g '*.py'"),
    ("grep -rn --include='*.py' x .", "git grep -n x -- '*.py'"),
    ("grep -rn --include='*.py' x lib", "git grep -n x -- 'lib/*.py'"),
    ("grep -rn --include '*.py' --include '*.pyi' x .", "rg x -g '*.{py,pyi}'"),
    ("grep -rn 'def read_shelf' .", "grep -rn --include='*.py' 'def read_shelf(' ."),
    ("grep -rnE 'read|write' .", r"grep -rn 'write\|read' ."),
    ("grep -rn -e read -e write .", "rg 'read|write'"),
    ("grep -rnw read .", r"rg '\bread\b'"),
    ("grep -rnF 'a.b' .", r"grep -rn 'a\.b' ."),
    ("grep -n x a.py", "rg x a.py"),
    ("grep -n x a.py", "cat a.py | grep x"),
    ("grep -n x a.py", "grep x < a.py"),
    ("grep -n x a.py", "sed -n '/x/p' a.py"),
    ("grep -n x a.py", "awk '/x/' a.py"),
    ("grep -n x a.py", "awk '/x/ {print $0}' a.py"),
    ("grep -n x a.py b.py", "grep -n x b.py a.py"),
    ("grep -c x a.py", "grep x a.py | wc -l"),
    ("grep -c x a.py", "cat a.py | grep -c x"),
    ("grep -rn x . | wc -l", "rg x | wc -l"),
    ("grep -rn x . | grep -v test", "rg x | grep -v 'test'"),
    ("grep -rn x . | grep -v a | grep -v b", "grep -rn x . | grep -v b | grep -v a"),
    ("grep -n -A 3 x a.py", "grep -A5 x a.py"),
    ("grep -n -C 3 x a.py", "grep -3 x a.py"),
    ("grep -n -C 3 x a.py", "grep -A3 -B3 x a.py"),
    ("grep -rni read .", "rg -i READ"),
    ("grep -rn x *", "grep -rn x ."),
    ("grep -rn x . || true", "grep -rn x ."),
    ("rg -S read", "rg -i read"),
]
DIFFERENT = [
    (SEARCH, "find lib -maxdepth 1 -type f -exec grep -nH read_shelf {} +"),
    (SEARCH, "find lib -name '*.py' -exec grep -nH read_shelf {} +"),
    (SEARCH, "find lib -type f -exec grep -c read_shelf {} +"),
    (SEARCH, "find lib -type f -exec grep -q read_shelf {} \\; -print"),
    (SEARCH, "find lib -type f -exec grep -n read_shelf lib/a.py {} +"),
    (SEARCH, "find lib -type f -exec sed -i 's/read_shelf/x/' {} +"),
    (SEARCH, "find lib -type f -exec grep -n read_shelf {} + -delete"),
    ("grep -n read_shelf lib/a.py", "awk '/read_shelf/ {print FNR}' lib/a.py"),
    ("grep -n read_shelf lib/a.py", "awk '/read_shelf/ {print FNR\":\"$1}' lib/a.py"),
    ("grep -n read_shelf lib/a.py", "awk '!/read_shelf/ {print FNR\":\"$0}' lib/a.py"),
    (SEARCH, "grep -rn read_shel lib"),
    (SEARCH, "grep -rn Read_shelf lib"),
    (SEARCH, "grep -rni read_shelf lib"),
    (SEARCH, "grep -rnw read_shelf lib"),
    (SEARCH, "grep -rnv read_shelf lib"),
    (SEARCH, "grep -rl read_shelf lib"),
    (SEARCH, "grep -rL read_shelf lib"),
    (SEARCH, "grep -rc read_shelf lib"),
    (SEARCH, "grep -rq read_shelf lib"),
    (SEARCH, "grep -rno read_shelf lib"),
    (SEARCH, "grep -n read_shelf lib"),
    (SEARCH, "grep -rn read_shelf lib/deep"),
    (SEARCH, "grep -rn read_shelf tests"),
    (SEARCH, "grep -rn read_shelf /"),
    (SEARCH, "grep -rn read_shelf lib tests"),
    (SEARCH, "grep -rn --include='*.py' read_shelf lib"),
    (SEARCH, "grep -rn --exclude-dir=tests read_shelf lib"),
    (SEARCH, "grep -rn read_shelf lib | head -1"),
    ("grep -C 10 read_shelf lib/a.py", "grep -C 10 read_shelf lib/a.py | head -20"),
    ("grep -A 3 read_shelf lib/a.py", "grep -A 3 read_shelf lib/a.py | tail -n 30"),
    (SEARCH, "grep -rn read_shelf lib | tail -3"),
    (SEARCH, "grep -rn read_shelf lib -m1"),
    (SEARCH, "grep -rn read_shelf lib | wc -l"),
    (SEARCH, "grep -rn read_shelf lib | grep -v test"),
    (SEARCH, "grep -rn -A50 read_shelf lib"),
    (SEARCH, "grep -rn read_shelf lib > found.txt"),
    (SEARCH, "grep -rn read_shelf lib > /dev/null"),
    (SEARCH, "grep -rn read_shelf lib ; rm -rf lib"),
    (SEARCH, "grep -rn read_shelf lib && git checkout ."),
    (SEARCH, "grep -rl read_shelf lib | xargs sed -i s/a/b/"),
    (SEARCH, "grep -rl read_shelf lib | xargs rm"),
    (SEARCH, "grep -rn read_shelf lib | xargs rm"),
    (SEARCH, "grep -rn read_shelf lib | sh"),
    (SEARCH, "grep -rn read_shelf lib | tee found.txt"),
    (SEARCH, "grep -rn read_shelf lib | sort -o found.txt"),
    (SEARCH, "grep -rn read_shelf lib | sort -ofound.txt"),
    (SEARCH, "grep -rn '' lib"),
    (SEARCH, "grep -rn . lib"),
    (SEARCH, "grep -rn read_shelf $DIR"),
    (SEARCH, "grep -rn read_shelf lib -f patterns"),
    (SEARCH, "git grep -n read_shelf HEAD~3 -- lib"),
    (SEARCH, "git grep -n read_shelf main"),
    (SEARCH, "git grep -O read_shelf lib"),
    (SEARCH, "git grep --cached read_shelf lib"),
    (SEARCH, "rg --pre ./evil read_shelf lib"),
    (SEARCH, "rg -r other read_shelf lib"),
    (SEARCH, "rg -U read_shelf lib"),
    (SEARCH, "ag -G py read_shelf lib"),
    ("grep -rn 'a.*b' lib", "grep -rnF 'a.*b' lib"),
    ("grep -rn 'x.(y' lib", "grep -rn 'x..y' lib"),
    ("grep -rn 'func Do' .", "rg 'func Do' -g '*.py'"),
    # Not options of these programs, which end with an error.
    (SEARCH, "ack -F read_shelf lib"),
    (SEARCH, "ack --line-number read_shelf lib"),
    (SEARCH, "ag -e read_shelf lib"),
    (SEARCH, "ag --color=never read_shelf lib"),
    (SEARCH, "rg --colour never read_shelf lib"),
    (SEARCH, "git grep -n --line-buffered read_shelf lib"),
    (SEARCH, "grep -rn --column read_shelf lib"),
    (SEARCH, "ag --after 3 read_shelf lib"),
    (SEARCH, "grep -rn read_shelf lib &"),
    (SEARCH, "grep -rnz read_shelf lib"),
    (SEARCH, ("grep", {"pattern": "read_shelf", "path": "lib", "output_mode": "files_with_matches"})),
    (SEARCH, ("grep", {"pattern": "read_shelf", "path": "lib", "-i": True})),
    (SEARCH, ("grep", {"pattern": "read_shelf", "path": "lib", "multiline": True})),
    (SEARCH, ("glob", {"pattern": "read_shelf", "path": "lib"})),
    (TOOL, ("grep", {"pattern": "read_shelf", "path": "lib", "output_mode": "content"})),
    (TOOL, ("grep", {"pattern": "read_shelf", "path": "lib", "head_limit": 2})),
    (TOOL, ("grep", {"pattern": "read_shelf", "path": "lib", "nonsense": 2})),
    (TOOL, "grep -n read_shelf lib/*.py"),
    ("grep -n x a.py", "grep -rn x ."),
    ("grep -n x a.py", "grep -n x b.py"),
    ("grep -n x a.py", "grep -n x a.py b.py"),
    ("grep -n x a.py", "sed -i '/x/p' a.py"),
    ("grep -n x a.py", "sed '/x/p' a.py"),
    ("grep -n x a.py", "sed -n '/x/w out' a.py"),
    ("grep -n x a.py", "sed -n '/x/d' a.py"),
    ("grep -n x a.py", "awk '/x/ {print $1}' a.py"),
    ("grep -n x a.py", "awk '/x/ {system(\"rm a\")}' a.py"),
    ("grep -rn x . | grep -v test", "grep -rn x . | grep test"),
    ("grep -rn x . | grep -v test", "grep -rn x ."),
    ("grep -rn x . | grep -v test", "grep -rn x . | grep -v tests"),
    ("grep -A3 x a.py", "grep x a.py"),
    ("grep -A3 x a.py", "grep -B3 x a.py"),
    ("grep -A3 x a.py", "grep -A30 x a.py"),
    ("grep -rn --include='*.py' x .", "grep -rn --include='*.js' x ."),
    ("grep -rn --include='*.js' 'def read_shelf' .", "grep -rn 'def read_shelf' ."),
    ("grep -rnE 'read|write' .", "grep -rn 'read|write' ."),
    ("grep -rnE 'read|write' .", "grep -rn read . && grep -rn write ."),
    ("grep -c x a.py b.py", "cat a.py b.py | grep -c x"),
    ("grep -rn x . | wc -l", "grep -rc x ."),
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_a_search_that_finds_and_shows_the_same_is_the_same(score: Score, expected: Any, actual: Any) -> None:
    assert same(score, expected, actual)


@pytest.mark.parametrize(("expected", "actual"), DIFFERENT)
def test_a_search_that_finds_or_shows_something_else_is_not(score: Score, expected: Any, actual: Any) -> None:
    assert not same(score, expected, actual)


def test_searches_of_unknown_directories_are_compared_as_written(score: Score) -> None:
    def call(command: str) -> Any:
        return ("bash", {"command": command})

    assert score(call("grep -rn x lib"), call("rg x lib")).reward == 1.0
    assert score(call("grep -rn x lib"), call("rg x /repo/lib")).reward == 0.0
