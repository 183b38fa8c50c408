"""Claims about the one spelling of a program's words: forms of one command are equal, other commands are not."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.shell.options import table
from paddock.shell.program_options import canonical_words, decisions, options_of
from paddock.shell.tables import COMMANDS

SAME = [
    ("curl -sXPOST -H'A: b' -d '{}' http://x", "curl http://x --data '{}' --request POST --header='A: b'"),
    ("curl -sS http://x", "curl http://x"),
    ("make -Csub -j4 all", "make --directory sub all"),
    ("npm i -D jest", "npm install jest --save-dev"),
    ("git blame -L10,20 a.py", "git blame -L 10,20 a.py"),
    ("git commit -qm x", "git commit --message=x"),
    ("git checkout -qb x", "git checkout -b x"),
    ("git stash push -q", "git stash"),
    ("git log -5", "git log -n 5"),
    ("git diff --staged", "git diff --cached"),
    ("tar -xzvf a", "tar --extract --gzip --file a"),
    ("tar -xf a -C d", "tar -C d -xf a"),
    ("black -q src/", "black src"),
    ("python -V", "python --version"),
    ("python -u s.py -u", "python s.py -u"),
    ("node -e 1", "node --eval=1"),
    ("cargo b -r", "cargo build --release --verbose"),
    ("jq -rn .a", "jq --null-input --raw-output .a"),
    ("pip install --progress-bar off x", "pip install x"),
]
DIFFERENT = [
    ("curl -X POST http://x", "curl -X PUT http://x"),
    ("curl -d a -d b http://x", "curl -d b -d a http://x"),
    ("curl http://x", "curl -I http://x"),
    ("make -n test", "make test"),
    ("npm install jest", "npm install --save-dev jest"),
    ("git diff --stat", "git diff"),
    ("git commit -m x", "git commit -am x"),
    ("python s.py -u", "python s.py"),
    ("python -c x -u", "python -u -c x"),
    ("node s.js --eval=1", "node --eval=1 s.js"),
    ("jq --arg a b .a", "jq --arg b a .a"),
    ("tar -xf a", "tar -cf a"),
    ("pip install -t d x", "pip install x"),
    ("git add -- -v", "git add -v"),
    ("git diff -U3", "git diff -U 3"),
    ("git log --pretty=oneline", "git log --pretty oneline"),
]
UNKNOWN = [
    "unheard -x",
    "curl --no-such-option http://x",
    "git commit -m",
    "git commit -" + "aq" * 100,
    "git diff --stat --patch",
    "git diff --name-only --stat",
    "npm install --save --no-save x",
    "ruff check --fix --fix-only src",
    "make --keep-going=1",
    # The place of these among others, or among operands, counts.
    "tar -cf o.tar -C a x -C b y",
    "tar -cf o.tar a --exclude=x",
    "jq . a --args b",
    "git log a --not b",
    "git log --all --not --branches",
    "git log --exclude=x --all",
    "curl -o a -O http://x http://y",
    "cp -d -L a b",
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_forms_of_one_command_have_one_spelling(one: str, other: str) -> None:
    found = canonical_words(shlex.split(one))
    assert found is not None
    assert found == canonical_words(shlex.split(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_commands_that_do_another_thing_do_not(one: str, other: str) -> None:
    assert canonical_words(shlex.split(one)) != canonical_words(shlex.split(other))


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_is_not_known_or_may_be_undone_has_none(text: str) -> None:
    assert canonical_words(shlex.split(text)) is None


commands = st.sampled_from(sorted(decisions()))


@given(st.data())
def test_the_canonical_words_are_their_own(data: st.DataObject) -> None:
    command = data.draw(commands)
    names = sorted(options_of(command)) or ["-x"]
    words = data.draw(st.lists(st.sampled_from([*names, "a", "b=c", "--", "-"]), max_size=6))
    found = canonical_words([*command.split(), *words])
    assert found is None or canonical_words(found) == found


@given(st.lists(st.text(max_size=12), max_size=8))
def test_no_words_raise(words: list[str]) -> None:
    for command in ("git log", "curl", "python"):
        canonical_words([*command.split(), *words])


NOT_IN_THE_HELP = {
    "ls": {"-p"},  # `--indicator-style=slash`: the value is the option's own.
    "pytest": {"--junitxml"},
    "git branch": {"--verbose"},
    "git log": {"--format"},  # A twin of `--pretty`, whose value may be missing.
    "git show": {"--format"},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_the_options_that_its_help_names(command: str) -> None:
    kinds = {"nothing": "switches", "text": "values", "path": "values", "optional": "optional"}
    known = options_of(command)
    for bare, option in table(COMMANDS[command].options).items():
        name = f"-{bare}" if len(bare) == 1 else f"--{bare}"
        if name not in NOT_IN_THE_HELP.get(command, ()):
            assert known[name].takes == kinds[option.takes], name
