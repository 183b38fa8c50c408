"""What holds of `equivalent` for every command, and for commands that a test cannot run everywhere."""

import shlex
import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.shell import equivalent, parse

BITS = [
    "a", "b.txt",
    "-n", "--x=1", "'q'", '"$v"', "$v", "$(a)", "`b`", "|", "||", "&", "&&", ";", "\n", "(", ")", "{", "}",
    "<",
    ">", ">>", "2>&1", "<<", "EOF", "<<<", "[", "]", "[[", "]]", "*", "~", "{a,b}", "\\", "'", '"', "#", "!", "if",
    "then", "fi", "for", "in", "do", "done", "case", "esac", "while", "cd", "src", "export", "A=1", "echo", "grep",
    "sed",
    "find", "cat", "\t", "\0", "\u00e9", "\ud800", "$'\\n'", "$((", "))", "=",
]  # fmt: skip
SHELL_TEXT = st.one_of(st.text(max_size=30), st.lists(st.sampled_from(BITS), max_size=14).map(" ".join))
WORD = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs", "Cn"]), min_size=1, max_size=8)

ASSUMED_SAME = [
    # Not run: the sandbox has no pytest and no network. Each rests on an assumption in `equivalence`'s docstring.
    ("pytest tests/test_a.py -xq", "pytest -x -q tests/test_a.py"),
    ("python -m pytest tests/test_a.py", "pytest ./tests/test_a.py"),
    ("python3 -m pytest -k 'a and b' t.py", 'pytest t.py -k "a and b"'),
    ("cd /repo && python -m pytest t.py::T::test_a -v", "python -m pytest /repo/t.py::T::test_a --verbose"),
    ("pytest --tb short t.py 2>&1 | tail -20", "pytest t.py --tb=short 2>&1 | tail -n 20"),
    ("python3 run.py --flag", "python run.py --flag"),
    ("pip install -e .", "python -m pip install --editable ."),
    ("cd /repo && pip3 install -q x", "pip install --quiet x"),
    ("export A=1 && python x.py", "A=1 python x.py"),
    ("cd /repo && make test", "make test"),
    ("(cd sub && make -j2)", "cd sub; make -j2"),
    ("git -C /repo log --oneline -5", "git log -n5 --oneline"),
    ("git commit -am 'msg'", 'git commit -a --message="msg"'),
]
NOT_SAME = [
    ("pytest a.py b.py", "pytest b.py a.py"),
    ("pytest -v t.py", "pytest -vv t.py"),
    ("pytest t.py", "pytest t.py | cat"),
    ("pytest t.py | tail -5", "pytest t.py 2>&1 | tail -5"),
    ("cd tests && pytest t.py", "pytest tests/t.py"),
    ("python run.py --a --b", "python run.py --b --a"),
    ("python ./run.py", "python run.py"),
    ("make -j2 test", "make test"),
    ("make a b", "make b a"),
    ("timeout 60 make", "make"),
    ("python x.py | sed -n 1,20p", "python x.py | head -20"),
    ("cat x | python", "python < x"),
    ("cd a", "cd b"),
    ("cd $d && ls", "ls $d"),
    ("ls $x", 'ls "$x"'),
    ("rm $x -r", "rm -r $x"),
    ("export A=1; echo $A", "A=1 echo $A"),
    ("cd a; echo $PWD", "echo $PWD"),
    ("set -e; cd a; ls", "set -e; ls a"),
    ("LC_ALL=C ls -la", "ls -la"),
    ("sudo ls", "ls"),
    ("a & b", "a; b"),
    ("time ls -la", "time ls -al"),
    ("/bin/ls", "ls"),
    ("git push", "git push origin"),
    ("export A=1", "true"),
    ("export A=1", "export A=2"),
    ("ls && cd a", "ls"),
    ("ls && export A=1", "ls"),
    ("pip install -e git+https://a/b", "pip install -e git+https:/a/b"),
]


@pytest.mark.parametrize(("expected", "actual"), ASSUMED_SAME)
def test_commands_that_are_the_same_by_assumption(expected: str, actual: str) -> None:
    judged = equivalent(expected, actual, cwd="/repo")
    assert judged.equal, judged.detail


@pytest.mark.parametrize(("expected", "actual"), NOT_SAME)
def test_commands_whose_sameness_is_not_sure_are_not_equal(expected: str, actual: str) -> None:
    judged = equivalent(expected, actual, cwd="/repo")
    assert not judged.equal
    assert judged.detail


def test_paths_meet_only_where_the_working_directory_is_known() -> None:
    assert equivalent("cat /repo/a", "cat a", cwd="/repo").equal
    assert not equivalent("cat /repo/a", "cat a").equal
    assert not equivalent("cat /repo/a", "cat a", cwd="repo").equal


def test_reasons_say_how_a_pair_was_judged() -> None:
    assert equivalent("ls ((", "ls ((").reason == "identical"
    assert equivalent("ls -la", "ls -al").reason == "same_form"
    assert equivalent("set -e;  ls 'a'", "set -e\nls a").reason == "same_tree"
    assert equivalent("ls a", "ls b").reason == "different"
    assert equivalent("set -e; ls a", "set -u; ls a").reason == "untracked"
    assert equivalent("ls ((", "ls").reason == "unparsed"


@settings(max_examples=150, deadline=None)
@given(SHELL_TEXT, SHELL_TEXT)
def test_judging_never_raises_and_is_symmetric(one: str, two: str) -> None:
    assert equivalent(one, two).equal == equivalent(two, one).equal


@settings(max_examples=150, deadline=None)
@given(SHELL_TEXT)
def test_a_command_is_equal_to_itself_with_other_blanks(text: str) -> None:
    assert equivalent(text, text).equal
    if not parse(text).error and not parse(f"  {text}\n").error and "\\" not in text:
        assert equivalent(text, f"  {text}\n").equal


@settings(max_examples=80, deadline=None)
@given(st.lists(WORD, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_quoting_words_otherwise_changes_nothing(words: list[str], random: Random) -> None:
    def quote(word: str) -> str:
        return random.choice(
            [shlex.quote(word), "'" + word.replace("'", "'\"'\"'") + "'", "".join(map(shlex.quote, word))]
        )

    argv = ["tool", *words]
    one, two = shlex.join(argv), " ".join(map(quote, argv))
    judged = equivalent(one, two)
    assert judged.equal, judged.detail


@settings(max_examples=80, deadline=None)
@given(st.lists(WORD, min_size=1, max_size=5), WORD, st.data())
def test_another_word_of_an_unknown_program_is_another_command(
    words: list[str], other: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(words) - 1))
    changed = [*words[:at], other, *words[at + 1 :]]
    judged = equivalent(shlex.join(["tool", *words]), shlex.join(["tool", *changed]))
    assert judged.equal == (changed == words)


def test_an_ordinary_pair_is_judged_in_well_under_a_millisecond() -> None:
    def once(index: int) -> float:
        start = time.process_time()
        equivalent(f"cd /repo && grep -rn 'name{index}' src | head -20", f"grep -rn name{index} /repo/src | head -n 20")
        return time.process_time() - start

    times = sorted(once(index) for index in range(200))
    assert times[100] < 0.001
