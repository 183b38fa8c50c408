"""Claims about patterns: equal ones match the same lines, in every dialect; what is not known is no pattern."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.resources_servers.pivot.semantic.intents.dialects import (
    HALF_END,
    HALF_START,
    WORD_END,
    WORD_START,
    Dialect,
)
from paddock.resources_servers.pivot.semantic.intents.patterns import Branch, CharClass, Repeat, pattern_of

SAME: list[tuple[tuple[str, Dialect], tuple[str, Dialect]]] = [
    ((r"load\ it", "rust"), ("load it", "basic")),
    ((r"foo\|bar", "basic"), ("bar|foo", "extended")),
    ((r"ba\(r\|z\)", "basic"), ("bar|baz", "rust")),
    ((r"\<foo\>", "basic"), (r"\bfoo\b", "perl")),
    (("f(x)", "basic"), (r"f\(x\)", "rust")),
    (("a.b[0]", "fixed"), (r"a\.b\[0\]", "perl")),
    (("[[:space:]]x[[:digit:]]", "basic"), (r"\sx\d", "rust")),
    (("^.*foo.*$", "basic"), ("foo", "rust")),
    (("fo*", "basic"), ("f", "rust")),
    ((r"fo\+", "basic"), ("fo", "rust")),
    (("foo(bar)?", "rust"), ("foo", "rust")),
    (("colou?r", "perl"), ("color|colour", "extended")),
    (("a{3}b", "extended"), ("aaab", "rust")),
    (("xx*y", "basic"), ("x+y", "extended")),
    (("[^a]b*c", "basic"), ("[^a]b*?c", "perl")),
    ((r"class\s+Shelf", "rust"), ("class Shelf", "basic")),
    ((r"def read_shelf\(", "rust"), ("def read_shelf", "basic")),
    ((r"def read_shelf\s*\(", "rust"), (r"def read_shelf\b", "perl")),
    ((r"^\s*def read_shelf(", "basic"), ("def read_shelf", "rust")),
    ((r"class Bookshelf[(:]", "rust"), (r"class Bookshelf\b", "perl")),
    (("*x", "basic"), (r"\*x", "rust")),
    ((r"a\{2\}c", "basic"), ("aac", "fixed")),
    (("a+b", "basic"), (r"a\+b", "extended")),
    (("(?i)foo", "rust"), ("[fF][oO][oO]", "basic")),
    ((r"[\w.]x", "perl"), ("[A-Za-z0-9_.]x", "basic")),
    (("a$b", "basic"), (r"a\$b", "rust")),
]
DIFFERENT: list[tuple[tuple[str, Dialect], tuple[str, Dialect]]] = [
    (("foo", "basic"), ("fo", "basic")),
    (("foo|bar", "basic"), ("foo|bar", "extended")),
    (("a.b", "basic"), ("a.b", "fixed")),
    (("foo", "basic"), ("Foo", "basic")),
    (("^foo", "basic"), ("foo", "basic")),
    (("foo$", "basic"), ("foo", "basic")),
    ((r"\bfoo", "rust"), ("foo", "rust")),
    (("def get", "rust"), (r"def get\(", "rust")),
    (("def test_", "rust"), (r"def test_\(", "rust")),
    (("class Bookshelf", "rust"), (r"class Bookshelf\(", "rust")),
    (("read_shelf", "rust"), (r"read_shelf\(", "rust")),
    (("a  b", "rust"), ("a b", "rust")),
    ((r"a\s*b", "rust"), ("a b", "rust")),
    ((r"a\tb", "rust"), ("a b", "rust")),
    (("a.*b", "rust"), ("a.b", "rust")),
    (("[ab]c", "rust"), ("[a-c]c", "rust")),
    (("[^ab]c", "rust"), ("[ab]c", "rust")),
    ((r"\<a", "perl"), (r"\<a", "rust")),
    (("a+", "basic"), ("a+", "extended")),
    ((r"[\w]", "basic"), (r"[\w]", "perl")),
    (("x{2}", "basic"), ("x{2}", "rust")),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_patterns_that_match_the_same_lines_are_equal(one: tuple[str, Dialect], other: tuple[str, Dialect]) -> None:
    found = pattern_of((one[0],), one[1])
    assert found is not None
    assert found == pattern_of((other[0],), other[1])


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_patterns_that_match_other_lines_differ(one: tuple[str, Dialect], other: tuple[str, Dialect]) -> None:
    assert pattern_of((one[0],), one[1]) != pattern_of((other[0],), other[1])


@pytest.mark.parametrize(
    ("pattern", "dialect"),
    [
        (r"\(a\)\1", "basic"),
        (r"\d+", "basic"),
        (r"\d+", "extended"),
        ("a(", "rust"),
        ("[a", "basic"),
        (r"\p{L}", "rust"),
        ("(?=a)b", "perl"),
        (r"\Qa\E", "perl"),
        ("[[=a=]]", "basic"),
        ("[a&&b]", "rust"),
        ("a{2}?", "extended"),
        ("a+?", "extended"),
        (r"a\+\?", "basic"),
        ("a\nb", "rust"),
        ("(a|b|c|d|e)(a|b|c|d|e)" + "(fg|hi|jk)" * 9, "rust"),
        ("((((" * 50 + "a" + "))))" * 50, "rust"),
        ("x" * 5000, "rust"),
    ],
)
def test_what_is_not_known_is_no_pattern(pattern: str, dialect: Dialect) -> None:
    assert pattern_of((pattern,), dialect) is None


def test_case_counts_where_there_are_letters() -> None:
    assert pattern_of(("x1",), "rust", ignore_case=True) != pattern_of(("x1",), "rust")
    assert pattern_of(("11",), "rust", ignore_case=True) == pattern_of(("11",), "rust")


def test_several_patterns_are_alternatives_and_a_word_has_ends() -> None:
    assert pattern_of(("foo", "bar"), "basic") == pattern_of(("bar|foo",), "rust")
    assert pattern_of(("foo",), "basic", whole="word") == pattern_of((r"\bfoo\b",), "rust")
    assert pattern_of(("foo",), "basic", whole="line") == pattern_of(("^foo$",), "rust")


LINES = [
    "", "a", "b", "ab", "ba", "aab", "abb", "a b", "a  b", "a\tb", "a_b", "aXb", "A", "(a)", "a+", "a*", "a|b", "a{2}",
    "a.b", "^a", "a$", "ab ab", "b(a", "\\a", "aa", "bb ", " a", "a-b", "]a", "aaa", "bab_", "1a2", "[a]", "a^b",
]  # fmt: skip
TOKENS = st.sampled_from([
    "a", "b", "ab", " ", ".", "*", "+", "?", "|", "(", ")", "^", "$", r"\(", r"\)", r"\|", r"\+", r"\?", "{2}",
    r"\{2\}", r"\b", r"\<", r"\>", r"\w", r"\W", r"\s", r"\S", "[ab]", "[^a]", "[a-]", "[]a]", r"\.", r"\*", "_",
    "[[:space:]]", "[^[:alnum:]]", "1", r"\\", ".*", "-", r"\^", r"\$",
])  # fmt: skip
PATTERNS = st.lists(TOKENS, min_size=1, max_size=5).map("".join)
RG = next((str(path) for path in Path(os.environ.get("PADDOCK_HOME", "/nonexistent")).glob("programs/**/rg")), None)
DIALECTS = sorted({"basic", "extended", "fixed", "perl"} | ({"rust"} if RG else set()))
GREP_OPTION: dict[Dialect, str] = {"basic": "-G", "extended": "-E", "fixed": "-F", "perl": "-P"}


def lines_of(pattern: str, dialect: Dialect, *options: str) -> list[str] | None:
    """Return the lines that grep or rg finds; None: it does not accept the pattern."""
    command = [RG or "rg"] if dialect == "rust" else ["grep", GREP_OPTION[dialect]]
    command += [*options, "-e", pattern]
    found = subprocess.run(
        command, input="\n".join(LINES), capture_output=True, text=True, check=False, env={"LC_ALL": "C.UTF-8"}
    )
    return found.stdout.splitlines() if found.returncode < 2 and "warning" not in found.stderr else None


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("grep") is None, reason="there is no grep")
@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    pattern=PATTERNS,
    dialect=st.sampled_from(DIALECTS),
    whole=st.sampled_from(["", "word", "line"]),
    fold=st.booleans(),
)
def test_a_pattern_matches_the_lines_that_grep_finds(pattern: str, dialect: Dialect, whole: str, fold: bool) -> None:
    found = pattern_of((pattern,), dialect, ignore_case=fold, whole=whole, exact=True)
    options = (["-w"] if whole == "word" else ["-x"] if whole == "line" else []) + (["-i"] if fold else [])
    lines = lines_of(pattern, dialect, *options)
    if found is None or lines is None:
        return
    spelled = spelled_as_python(found.alternatives)
    assert [line for line in LINES if re.search(spelled, line)] == lines
    least = pattern_of((pattern,), dialect, ignore_case=fold, whole=whole)
    assert least is not None
    spelled = spelled_as_python(least.alternatives)
    stands_for_many = any(blank in pattern for blank in (" ", r"\s", "space"))
    assert stands_for_many or [line for line in LINES if re.search(spelled, line)] == lines


def spelled_as_python(branches: Iterable[Branch | str]) -> str:
    """Spell the alternatives of a pattern as an expression of Python's."""
    return "|".join("".join(map(_part, branch)) for branch in branches)


ANCHORS = {"^": "^", "$": "$", "b": r"\b", "B": r"\B", HALF_START: r"(?<!\w)", HALF_END: r"(?!\w)"}
ANCHORS |= {WORD_START: r"\b(?=\w)", WORD_END: r"\b(?<=\w)"}


def _part(part: Repeat | str) -> str:
    if isinstance(part, str):
        return ANCHORS[part]
    times = f"{{{part.least},{part.most if part.most < 1000 else ''}}}"
    if not isinstance(part.item, CharClass):
        return f"(?:{spelled_as_python(part.item)}){times}"
    members = "".join(f"\\x{member:02x}" for member in sorted(part.item.members))
    return f"[{members}{chr(128) + '-' + chr(0x10FFFF) if part.item.others else ''}]{times}"
