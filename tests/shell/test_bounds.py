"""Degenerate texts are given up after a bounded effort, and a judgement reads each text once."""

import time

import pytest

from paddock.shell import effects, equivalent, memo, parse

DEGENERATE = {
    "substitutions": "$(" * 21_000 + "ls" + ")" * 21_000,
    "quoted substitutions": "echo " + '"$(echo ' * 7000 + ')"' * 7000,
    "process substitutions": "cat " + "<(cat " * 8000 + ")" * 8000,
    "if": "if a; then " * 4000 + "ls; " + "fi; " * 4000,
    "while": "while a; do " * 3500 + "b; " + "done; " * 3500,
    "case": "case a in b) " * 3500 + "esac;" * 3500,
    "functions": "f() { " * 7000 + "ls; " + "}; " * 7000,
    "arithmetic": "$((" * 12_000 + "1" + "))" * 12_000,
    "redirections": "ls " + ">a " * 20_000,
}
ENOUGH_S = 10.0
"""Processor time that is never needed: a text takes some hundredths of a second, and took minutes without the bound."""


@pytest.mark.slow
@pytest.mark.parametrize("name", DEGENERATE)
def test_a_degenerate_text_is_given_up_soon_and_says_so(name: str) -> None:
    text = DEGENERATE[name]
    assert 40_000 < len(text) < 80_000
    start = time.thread_time()
    judged, done = equivalent("ls", text), effects(text)
    assert time.thread_time() - start < ENOUGH_S
    assert not judged.equal
    assert judged.detail
    assert not done.reads_only
    assert done.why


def test_what_is_understood_around_an_error_is_still_found() -> None:
    broken = "if true; then " + "echo $(ls a); " * 60 + "rm -rf src; fi; )"
    assert parse(broken).error
    assert effects(broken).destructive


def test_a_judgement_reads_each_text_once_and_keeps_nothing_beyond() -> None:
    long = "cat a.txt && ls; " * 2000
    with memo():
        first = parse(long)
        with memo():
            assert parse(long) is first
        assert parse(long) is first
    assert parse(long) is not first
    assert parse(long) == first


def test_find_inside_find_is_judged_by_what_the_inner_one_runs() -> None:
    assert effects("find . -exec find {} -exec rm -r x \\; \\;").destructive
    assert effects("find . -exec find {} -name x \\;").reads_only
    assert not effects("find . -exec " * 1000).reads_only
    assert not effects("find . -exec timeout 5 " * 1000).reads_only
    assert not effects("find . " + "-exec ls " * 1000).reads_only
