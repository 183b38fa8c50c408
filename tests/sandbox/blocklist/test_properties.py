"""What surrounds a command does not change its judgement; no text raises; time grows linearly."""

import shlex
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.sandbox.blocklist import Blocklist
from paddock.shell import parse, words

Wrap = Callable[[str], str]

SURROUNDINGS: dict[str, Wrap] = {
    "cd": lambda line: f"cd x && {line}",
    "subshell": lambda line: f"( {line}\n)",
    "group": lambda line: f"{{ {line}\n}}",
    "pipe": lambda line: f"{{ {line}\n}} 2>&1 | head -n 20",
    "time": lambda line: f"time {line}",
    "time and not": lambda line: f"! time -p ! time -- {line}",
    "not": lambda line: f"! {line}",
    "then": lambda line: f"if time true; then time {line}\nfi",
    "after": lambda line: f"ls -la; {line}",
    "before": lambda line: f"{line}\necho $?",
    "if": lambda line: f"if true; then\n{line}\nfi",
    "loop": lambda line: f"for i in 1 2; do\n{line}\ndone",
    "substitution": lambda line: f'out="$(\n{line}\n)"; echo "$out"',
    "function": lambda line: f"step() {{\n{line}\n}}; step",
    "sh -c": lambda line: f"bash -c {shlex.quote(line)}",
    "eval": lambda line: f"eval {shlex.quote(line)}",
    "document": lambda line: f"bash <<'END_{len(line)}'\n{line}\nEND_{len(line)}\n",
    "comment": lambda line: f"# a step\n{line}",
}
PREFIXES: dict[str, Wrap] = {
    "quoted": lambda line: " ".join(f"'{each}'" for each in words(line) or [] if "'" not in each),
    "escaped": lambda line: "".join(
        f"\\{char}" if char.isalnum() else shlex.quote(char) for char in (words(line) or [""])[0]
    ),
    "timeout": lambda line: f"timeout -k 5 60 {line}",
    "sudo env": lambda line: f"sudo -u user env -i A=1 {line}",
    "nohup": lambda line: f"nohup {line} > out.log 2>&1 &",
    "xargs": lambda line: f"true && exec {line}",
}
FRAGMENTS = (
    "pkill x|rm -rf /|git log|echo|'|\"|\\|$(|)|`|{|}|<<E\n|E\n|&&|; |\n|$x|${|((|"
    "if |then |fi|do |done|for x in |case |f()|>|<(|#|time "
)
TEXT = st.lists(st.sampled_from(["|", *FRAGMENTS.split("|")]), max_size=25).map("".join) | st.text(max_size=60)


def valid(groups: dict[str, list[str]]) -> list[str]:
    """Lines that are whole commands, and that a place in another text does not change."""
    lines = [line for group in groups.values() for line in group]
    return [line for line in lines if parse(line).error is None and not line.startswith("time ")]


def plain(groups: dict[str, list[str]]) -> list[str]:
    return [line for line in valid(groups) if (found := words(line)) and not any("'" in each for each in found)]


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_surroundings_leave_a_benign_command_benign(blocklist: Blocklist, corpus: Any, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(valid(corpus.benign)))
    for name in data.draw(st.lists(st.sampled_from(sorted(SURROUNDINGS)), min_size=1, max_size=2)):
        line = SURROUNDINGS[name](line)
    assert blocklist.check(line) is None


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_surroundings_do_not_hide_a_direct_form(blocklist: Blocklist, corpus: Any, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(valid(corpus.direct)))
    for name in data.draw(st.lists(st.sampled_from(sorted(SURROUNDINGS)), min_size=1, max_size=2)):
        line = SURROUNDINGS[name](line)
    assert blocklist.check(line) is not None, line


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_quotes_and_wrappers_change_nothing(blocklist: Blocklist, corpus: Any, data: st.DataObject) -> None:
    refused = data.draw(st.booleans())
    line = data.draw(st.sampled_from(plain(corpus.direct if refused else corpus.benign)))
    name = data.draw(st.sampled_from(sorted(PREFIXES)))
    if name == "escaped":
        line = " ".join([PREFIXES[name](line), *map(shlex.quote, (words(line) or [])[1:])])
    else:
        line = PREFIXES[name](line)
    assert (blocklist.check(line) is not None) == refused, line


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(line=TEXT, typed=st.booleans())
def test_no_text_raises(blocklist: Blocklist, line: str, typed: bool) -> None:
    refusal = blocklist.check(line, typed=typed)
    assert refusal is None or refusal.message


LONG = {
    "many commands": "echo hello world; " * 5500,
    "many git commands": "".join(f"git log -{n} -- a; " for n in range(5300)),
    "one word": "echo " + "a" * 100_000,
    "many words": "git log " + "a/b " * 25_000,
    "dots": "git log " + ".." * 50_000,
    "an open quote": "echo '" + "a b; " * 20_000,
    "open brackets": "(" * 100_000,
    "open substitutions": "$(" * 50_000,
    "substitutions": "echo " + "$(a) " * 20_000,
    "braces": "echo " + "{a,b}" * 16_000,
    "long braces": "echo " + ("{a,b}" * 90 + " ") * 220,
    "garbage": "}{)(;'\"`" * 12_000,
    "backquotes": "`" * 100_000,
    "doubling": "a=aaaaaaaa; " + 'a="$a$a"; ' * 9_000,
    "doubling words": "a='a a a a'; " + "a=$a$a; " * 20 + "echo " + "$a " * 30_000,
    "a long alias": "alias k='" + "echo a; " * 6000 + "'; " + "k; " * 15_000,
    "a long function": "k() { " + "echo a; " * 6000 + "}; " + "k; " * 15_000,
    "functions of functions": "f0() { :; }; " + "".join(f"f{n}() {{ f{n - 1}; f{n - 1}; }}; " for n in range(1, 2500)),
    "arguments of arguments": "f() { g " + '"$@" ' * 9_000 + "; }; f " + "a " * 25_000,
    "shells in shells": "bash -c " * 12_000,
    "searches in searches": "find . -exec " * 7_000,
    "wrappers": "sudo " * 20_000,
    "a document for a shell": "bash <<EOF\n" + "some text $x $(y)\n" * 5500 + "EOF\n",
    "a document": "cat > f <<'EOF'\n" + "some text $x `y`\n" * 6000 + "EOF\n",
    "printf": "printf '%s" + "b" * 50_000 + "' " + "a " * 25_000 + "| sh",
    "versions": "git checkout " + "1." * 50_000,
    "times": "time -p ! " * 12_000,
    "lines of times": "; time ! " * 12_000,
    "spaces": "; " + " \t" * 50_000 + "time",
    "forks": "perl -e '" + "while 1 " * 12_000 + "'",
}


SOME = [pytest.param(name, marks=[pytest.mark.slow] * bool(nth % 3)) for nth, name in enumerate(sorted(LONG))]


@pytest.mark.long
@pytest.mark.parametrize("name", SOME)
def test_a_hundred_thousand_characters_take_no_more_than_seconds(blocklist: Blocklist, name: str) -> None:
    """Ten times what they take on a quiet machine; what grows with the square of the length takes minutes."""
    started = time.process_time()
    blocklist.check(LONG[name])
    assert time.process_time() - started < 3.0
