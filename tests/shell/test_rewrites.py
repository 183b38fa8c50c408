"""Rewrites of commands: what a table claims is run for real, and `equivalent` must agree with what was seen.

Law     a preserving rewrite prints the same (up to the spelling of one path), exits the same and leaves the same tree
        in every tree it is run in; a changing one differs in at least one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from paddock.shell import equivalent

Oracle = Callable[[Sequence[tuple[str, str, str]]], list[Any]]
"""Runs (tree, command, base of relative paths) and tells output, status and files of each."""

CWD = "/mnt/repo"
TREES = ("plain", "crowded", "bare")


class Rewrite(NamedTuple):
    expected: str
    actual: str
    base: str = "."
    """Where the relative paths that `expected` prints start."""
    actual_base: str = "."


class Outcome(NamedTuple):
    pair: Rewrite
    tree: str
    expected: Any
    actual: Any


PRESERVING = [
    # words and quoting
    Rewrite("cat 'a.txt'", 'cat "a.txt"'),
    Rewrite("cat with\\ space.txt", "cat 'with space.txt'"),
    Rewrite("grep   needle    a.txt", "grep needle a.txt"),
    Rewrite("printf 'x\\ty'", "printf $'x\\\\ty'"),
    Rewrite("cat a.txt # the first file", "cat a.txt;"),
    Rewrite("cat a.txt; cat b.txt", "cat a.txt\ncat b.txt"),
    Rewrite("cat \\\n  a.txt", "cat a.txt"),
    # options
    Rewrite("ls -la", "ls -al"),
    Rewrite("ls -la", "ls -l -a"),
    Rewrite("ls -l --all", "ls -al ."),
    Rewrite("ls -l src", "ls src -l"),
    Rewrite("ls b.txt a.txt", "ls a.txt b.txt"),
    Rewrite("grep -rn needle src", "grep -r -n needle src"),
    Rewrite("grep -rn needle src", "grep needle src --recursive --line-number"),
    Rewrite("grep -i -l needle a.txt b.txt", "grep --ignore-case --files-with-matches needle a.txt b.txt"),
    Rewrite("grep -A 2 needle a.txt", "grep -A2 needle a.txt"),
    Rewrite("grep --after-context=2 needle a.txt", "grep --after-context 2 needle a.txt"),
    Rewrite("grep -2 needle a.txt", "grep -C 2 needle a.txt"),
    Rewrite("grep -e needle a.txt", "grep needle a.txt"),
    Rewrite("grep -rn --include=*.py needle", "grep -rn --include='*.py' needle ."),
    Rewrite("ls -1a src", "ls -a src"),
    Rewrite("find . -type f -not -path './src/*'", "find . -type f ! -path './src/*'"),
    Rewrite("grep -rn --include='*.py' TODO .", 'grep -rn TODO --include="*.py"'),
    Rewrite("sort -n -r a.txt", "sort -rn a.txt"),
    Rewrite("sort -k 2 -u a.txt", "sort -uk2 a.txt"),
    Rewrite("cut -d ' ' -f 1 a.txt", "cut -f1 -d' ' a.txt"),
    Rewrite("du -a -b src", "du -ab src"),
    Rewrite("wc -l -c a.txt", "wc -cl a.txt"),
    # names and dialects
    Rewrite("grep -E 'needle|TODO' src/m.py", "grep 'needle\\|TODO' src/m.py"),
    Rewrite("grep -e needle -e TODO src/m.py", "grep -E 'TODO|needle' src/m.py"),
    Rewrite("fgrep needle a.txt", "grep -F needle a.txt"),
    Rewrite("grep -F needle a.txt", "grep needle a.txt"),
    Rewrite("[ -f a.txt ]", "test -f ./a.txt"),
    Rewrite("command ls src", "ls src"),
    # directories and paths
    Rewrite("cd src && grep -rn needle .", "grep -rn needle src", "src"),
    Rewrite("cd src; ls -l pkg", "ls -l src/pkg", "src"),
    Rewrite("(cd src && cat m.py)", "cat src/m.py"),
    Rewrite("cd src || exit 1; cat m.py", "cat src/m.py"),
    Rewrite("cd src && cat pkg/n.py && cat ../a.txt", "cat src/pkg/n.py && cat a.txt"),
    Rewrite(f"cd {CWD} && bash run.sh x", "bash run.sh x"),
    Rewrite(f"cat {CWD}/a.txt", "cat a.txt"),
    Rewrite("cat src/../a.txt", "cat ./a.txt"),
    Rewrite("cd src && ls pkg/*.py", "ls src/pkg/*.py", "src"),
    Rewrite("cd src && touch new && rm m.py", "touch src/new && rm src/m.py"),
    Rewrite("cd src && cat m.py > ../out", "cat src/m.py > out"),
    Rewrite("find -name '*.py'", 'find . -name "*.py"'),
    Rewrite("find . -type f -name '*.py'", "find . -name \\*.py -type f -print"),
    Rewrite("find . -not -name '*.py' -a -type f", "find . -type f ! -name '*.py'"),
    Rewrite("cd src && find . -name '*.py'", "find src -name '*.py'", "src"),
    Rewrite("cd src && find . -name 'm*' -type f", "find src -type f -name 'm*'", "src"),
    Rewrite("cd src && grep -rn --exclude-dir=pkg needle .", "grep -rn --exclude-dir=pkg needle src", "src"),
    Rewrite("find src/ -maxdepth 1 -type f", "find src -maxdepth 1 -type f"),
    # pipes and redirections
    Rewrite("cat a.txt | grep needle", "grep needle a.txt"),
    Rewrite("grep needle < a.txt", "grep needle a.txt"),
    Rewrite("cat a.txt | wc -l", "wc -l < a.txt"),
    Rewrite("cat a.txt | sort | cat | uniq -c", "sort a.txt | uniq -c"),
    Rewrite("ls src | cat", "ls src"),
    Rewrite("cd src && cat m.py 2>&1 | sort", "cat src/m.py 2>&1 | sort"),
    Rewrite("cd src && find . -type f | head -3", "find src -type f | head -n 3", "src"),
    Rewrite("cd src && ls | grep m", "ls src/ | grep m"),
    Rewrite("grep -rl needle src | wc -l", "cd src && grep -rl needle . | wc -l"),
    Rewrite("grep -r needle . 2>&1", "grep -r needle ."),
    Rewrite("bash run.sh 2>&1 | head", "bash run.sh |& head -n 10"),
    Rewrite("bash run.sh > out 2>&1", "bash run.sh &> out"),
    Rewrite("sort < a.txt > out", "sort > out < a.txt"),
    Rewrite("head -n2>out a.txt", "head -n 2 a.txt > out"),
    Rewrite("sort -k2>out a.txt", "sort -k 2 a.txt >out"),
    Rewrite("> new", ": > new"),
    # ranges of lines
    Rewrite("sed -n 1,20p a.txt", "head -20 a.txt"),
    Rewrite("sed -n '1,20p' a.txt", "head --lines=20 a.txt"),
    Rewrite("head -n 20 a.txt", "cat a.txt | head -20"),
    Rewrite("sed -n '5,9p' a.txt", "head -9 a.txt | tail -n +5"),
    Rewrite("sed -n '5,9p' a.txt", "tail -n +5 a.txt | head -n 5"),
    Rewrite("sed -n '5,9p;' a.txt", "sed -n -e 5,9p a.txt"),
    Rewrite("sed -n '$p' a.txt", "tail -1 a.txt"),
    Rewrite("sed -n '5,$p' a.txt", "tail -n +5 a.txt"),
    Rewrite("sed '1,4d' a.txt", "tail -n +5 a.txt"),
    Rewrite("grep -n needle a.txt | sed -n 1,3p", "grep -n needle a.txt | head -3"),
    Rewrite("tail -5 -- a.txt", "tail -n 5 a.txt"),
    Rewrite("head -2 -q a.txt b.txt", "head -n 2 -q a.txt b.txt"),
    Rewrite("tail a.txt -n 5", "tail -5 a.txt"),
    Rewrite("sed -i -e s/needle/pin/g a.txt", "sed -i 's/needle/pin/g' ./a.txt"),
    # lists, groups and the environment
    Rewrite("true && cat a.txt", "cat a.txt"),
    Rewrite("cat a.txt && true", "cat a.txt"),
    Rewrite("{ cat a.txt; cat b.txt; } && ls", "cat a.txt; cat b.txt && ls"),
    Rewrite("(cat a.txt; ls)", "cat a.txt; ls"),
    Rewrite("export A=1; bash -c 'echo $A'", "A=1 bash -c 'echo $A'"),
    Rewrite("A=1 B=2 bash -c 'echo $A$B'", "env B=2 A=1 bash -c 'echo $A$B'"),
    Rewrite("cd src && cat m.py; echo $?", "cat src/m.py; echo $?"),
    Rewrite("x=$(< c.log); echo \"$x\"", "x=$(cat c.log); echo \"$x\""),
    # text
    Rewrite("echo 'a b'", "echo a b"),
    Rewrite("echo a b", "printf 'a b\\n'"),
    Rewrite("echo -n x > new", "printf x > new"),
    Rewrite("cat > new <<'EOF'\none $two\nEOF", "echo 'one $two' > new"),
    Rewrite("cat <<< 'x y'", "echo x y"),
    # writing
    Rewrite("rm -rf src docs", "rm -fr docs src"),
    Rewrite("mkdir -p new/a new/b", "mkdir --parents new/b new/a"),
    Rewrite("touch new1 new2", "touch new2 new1"),
    Rewrite("cp -r src new", "cp --recursive src new"),
    Rewrite("cp a.txt b.txt", "cp ./a.txt src/../b.txt"),
    Rewrite("chmod -R go-r src", "chmod --recursive go-r src"),
]  # fmt: skip

CHANGING = [
    Rewrite("chmod -c -v 644 a.txt", "chmod -v -c 644 a.txt"),
    Rewrite("cat a.txt | wc -l", "wc -l a.txt"),
    Rewrite("cat a.txt b.txt | grep needle", "grep needle a.txt b.txt"),
    Rewrite("cat a.txt | grep -l needle", "grep -l needle a.txt"),
    Rewrite("grep -r needle src", "grep needle src"),
    Rewrite("grep needle a.txt", "grep -i needle a.txt"),
    Rewrite("grep -n needle a.txt", "grep -c needle a.txt"),
    Rewrite("grep -w x a.txt", "grep -x x a.txt"),
    Rewrite("grep x.y a.txt", "grep -F x.y a.txt"),
    Rewrite("grep -E 'needle|TODO' src/m.py", "grep 'needle|TODO' src/m.py"),
    Rewrite("grep 'needle two' a.txt b.txt", "grep needle two a.txt b.txt"),
    Rewrite("grep needle a.txt | cat", "grep needle a.txt"),
    Rewrite("grep -r needle . | head -1", "grep -r -m 1 needle ."),
    Rewrite("grep -rn --exclude-dir=src needle src", "cd src && grep -rn --exclude-dir=src needle ."),
    Rewrite("ls", "ls -a"),
    Rewrite("ls -a", "ls -A"),
    Rewrite("ls -aA", "ls -Aa"),
    Rewrite("ls src", "ls -d src"),
    Rewrite("ls", "ls src"),
    Rewrite("ls *.txt", "ls '*.txt'"),
    Rewrite("ls -r b.txt a.txt", "ls a.txt b.txt"),
    Rewrite("head -5 a.txt", "tail -5 a.txt"),
    Rewrite("sed 55q a.txt", "head -55 a.txt"),
    Rewrite("cd src && cat m.py 2>&1 | sort", "cd src && cat ../a.txt 2>&1 | sort"),
    Rewrite("grep -q needle a.txt && cat a.txt 2>&1 | sort", "{ grep needle a.txt && cat a.txt; } 2>&1 | sort"),
    Rewrite("cd src && find . | grep src", "find src | grep src"),
    Rewrite("cd src && ls pkg/n.py | wc -c", "ls src/pkg/n.py | wc -c", "src"),
    Rewrite("cd src && x=$(find .) && echo ${#x}", "x=$(find src) && echo ${#x}"),
    Rewrite("cat a.txt >> a.txt", "sed -n p a.txt >> a.txt"),
    Rewrite("cp -r src docs", "cp -r src/. docs"),
    Rewrite("mkdir new/a src", "mkdir src new/a"),
    Rewrite("head -9 a.txt | tail -5", "sed -n 5,9p a.txt"),
    Rewrite("sed -n 9,5p a.txt", "head -5 a.txt | tail -n +9"),
    Rewrite("sed -n 1,20p a.txt", "sed 1,20p a.txt"),
    Rewrite("sed -n 1,20p a.txt", "sed -n 1,21p a.txt"),
    Rewrite("sed -n 1,3p a.txt b.txt", "head -3 a.txt b.txt"),
    Rewrite("awk 'NR<=60' a.txt", "sed -n 1,60p a.txt"),
    Rewrite("cat a.txt b.txt", "cat b.txt a.txt"),
    Rewrite("cat a.txt && ls nowhere && cat b.txt", "cat a.txt; ls nowhere; cat b.txt"),
    Rewrite("grep -q needle a.txt && echo yes", "grep -q needle a.txt; echo yes"),
    Rewrite("grep -q needle a.txt || echo no", "grep -q needle a.txt && echo no"),
    Rewrite("grep needle a.txt; true", "grep needle a.txt"),
    Rewrite("! grep -q needle a.txt", "grep -q needle a.txt"),
    Rewrite("cd src && bash ../run.sh", "bash run.sh"),
    Rewrite("cd src && pwd", "pwd"),
    Rewrite("(cd src); ls", "cd src; ls"),
    Rewrite("grep -q needle a.txt && cd src; ls", "cd src; ls"),
    Rewrite("bash run.sh 2>/dev/null", "bash run.sh"),
    Rewrite("bash run.sh 2>&1 > out", "bash run.sh > out 2>&1"),
    Rewrite("bash run.sh > out", "bash run.sh >> old.tmp"),
    Rewrite("cat a.txt > out", "cat a.txt | tee out"),
    Rewrite("echo x > a.txt", "echo x >> a.txt"),
    Rewrite("sort a.txt > a.txt", "cat a.txt | sort"),
    Rewrite("cp a.txt b.txt", "cp b.txt a.txt"),
    Rewrite("mv a.txt b.txt", "mv b.txt a.txt"),
    Rewrite("mv a.txt new", "cp a.txt new"),
    Rewrite("rm -r src/pkg src", "rm -r src src/pkg"),
    Rewrite("mkdir new new/a", "mkdir new/a new"),
    Rewrite("mkdir new/a", "mkdir -p new/a"),
    Rewrite("touch new", "touch new/"),
    Rewrite("echo '$HOME'", 'echo "$HOME"'),
    Rewrite("echo 'a  b'", "echo a  b"),
    Rewrite("echo -n x", "echo x"),
    Rewrite("cat <<EOF\n$HOME\nEOF", "cat <<'EOF'\n$HOME\nEOF"),
    Rewrite("A=1; bash -c 'echo $A'", "A=1 bash -c 'echo $A'"),
    Rewrite("export A=1; echo $A", "A=1 echo $A"),
    Rewrite("find . -name '*.py' -type f", "find . -name '*.py' -o -type f"),
    Rewrite("find . -maxdepth 1 -name '*.py'", "find . -name '*.py'"),
    Rewrite("find . -path './src/*'", "cd src && find .. -path './src/*'"),
    Rewrite("find src -type f", "find src -type d"),
    Rewrite("find . -type f -print -name '*.py'", "find . -name '*.py' -type f -print"),
    Rewrite("[ -f a.txt ]", "[ -d a.txt ]"),
    Rewrite("for f in *.txt; do cat $f; done", "cat *.txt"),
    Rewrite("f() { cat a.txt; }; f", "f() { cat b.txt; }; f"),
    Rewrite("ls() { cat a.txt; }; ls b.txt", "ls() { cat b.txt; }; ls b.txt"),
    Rewrite("sort -u a.txt", "uniq a.txt"),
    Rewrite("uniq a.txt new", "uniq new a.txt"),
    Rewrite("chmod 600 a.txt", "chmod 644 a.txt"),
    # words that a reader may take for the same
    Rewrite("cat \\ a.txt", "cat a.txt"),
    Rewrite("echo a\\ \\\n#b", "echo a\\ "),
    Rewrite("echo \\'\\\n\\\n\\'", "echo \\' \\'"),
    Rewrite("echo \n\\\n\t\\\na.txt", "echo a.txt"),
    Rewrite("echo \\$$$", "echo '$$$'"),
    Rewrite("echo $`echo t`", "echo `echo t`"),
    Rewrite("echo x$'\\cA'", "echo 'x\\cA'"),
    Rewrite("echo ,$\"a\"", "echo ',$a'"),
    Rewrite("x=a; xb=c; echo $x{b,d}", "x=a; xb=c; echo ${x}{b,d}"),
    Rewrite("cat <<< 2>&1", "cat <<< 2"),
    Rewrite("cat <<< <<<x", "cat <<< x"),
    Rewrite("echo ~:x", "echo '~:x'"),
    Rewrite("env A=~ printenv A", "env 'A=~' printenv A"),
    Rewrite("A=x:~/y printenv A", "A='x:~/y' printenv A"),
    Rewrite("head -n \u0663 a.txt", "head -n 3 a.txt"),
    Rewrite("'git diff' --stat", "git diff --stat"),
    # the shell's own state
    Rewrite("grep -q nowhere a.txt; true; echo $?", "grep -q nowhere a.txt; echo $?"),
    Rewrite("grep -q nowhere a.txt; cd src; echo $?", "grep -q nowhere a.txt; echo $?"),
    Rewrite("cat a.txt | cat; echo ${#PIPESTATUS[@]}", "cat a.txt; echo ${#PIPESTATUS[@]}"),
    Rewrite("(echo $BASH_SUBSHELL)", "echo $BASH_SUBSHELL"),
    Rewrite("command cd src; ls", f"command cd src; ls {CWD}"),
    Rewrite("time cd src 2>/dev/null; ls", f"time cd src 2>/dev/null; ls {CWD}"),
    Rewrite("x=cd; $x src; ls", f"x=cd; $x src; ls {CWD}"),
    Rewrite("echo $(< a.txt)", "echo $(: < a.txt)"),
    Rewrite("cat 2>&- &> out", "cat 2>&- >&2 &> out"),
    # what a command is given, and how
    Rewrite("cat a.txt | sed -i s/needle/pin/", "sed -i s/needle/pin/ a.txt"),
    Rewrite("cat a.txt | wc -lw", "wc -lw < a.txt"),
    Rewrite("cd src && find . -name src", "find src -name src"),
    Rewrite("cd src && find . -name '.*'", "find src -name '.*'"),
    Rewrite("cd docs && find . -delete", "find docs -delete"),
    Rewrite("find , -name a.txt", "find . , -name a.txt"),
    Rewrite("find . -name a.txt -exec echo -not -path {} \\;", "find . -name a.txt -exec echo ! -path {} \\;"),
    Rewrite("grep -rn --include={a,b}.txt needle", "grep -rn --include='{a,b}.txt' needle"),
    Rewrite("ls -1 -C", "ls -C -1"),
    Rewrite("grep -r --exclude-dir='.*' needle .", "grep -r --exclude-dir='.*' needle"),
    Rewrite("grep -r --exclude-dir=src/pkg needle src/pkg", "cd src && grep -r --exclude-dir=src/pkg needle pkg"),
    Rewrite("grep -d recurse needle", "cd docs && grep -d recurse needle"),
    Rewrite("ls --full-time --time-style=iso", "ls --time-style=iso --full-time"),
    Rewrite("ls -C *.txt", f"ls -C {CWD}/*.txt"),
    Rewrite("ls -X ./. ./src", f"ls -X {CWD}/src ./."),
    Rewrite("cp -s ./a.txt src/new", f"cp -s {CWD}/a.txt src/new"),
    Rewrite("mkdir -p docs/e/f; rmdir -p docs/e/f", "mkdir -p docs/e/f; cd docs && rmdir -p e/f"),
    Rewrite("rm -rf ./", f"rm -rf {CWD}/"),
    # where a program takes an option
    Rewrite("echo eel | tr -d e", "echo eel | tr e -d"),
    Rewrite("tail -5 a.txt", "tail a.txt -5"),
    Rewrite("tail -n 5 a.txt b.txt", "tail -5 a.txt b.txt"),
    Rewrite("tail -q -5 a.txt", "tail -q -n 5 a.txt"),
    Rewrite("tail -n 5 a.txt", "tail -5 -q a.txt"),
    Rewrite("tail ./+5 a.txt", "tail +5 a.txt"),
    Rewrite("head -1 a.txt", "head a.txt -1"),
    Rewrite("head -0 a.txt", "head a.txt -0"),
    Rewrite("head -q -1 a.txt", "head -q -n 1 a.txt"),
]  # fmt: skip

IN_GIT_SAME = [
    Rewrite("git status --short", "git status -s"),
    Rewrite("git --no-pager diff --stat", "git diff --stat"),
    Rewrite("git diff | cat", "git diff"),
    Rewrite("git diff --cached", "git diff --staged"),
    Rewrite("git log --oneline -1", "git log -n 1 --oneline"),
    Rewrite("cd src && git status -s", "git -C src status --short", "src", "src"),
    Rewrite("git add -A && git commit -qm x", "git add --all && git commit -q -m 'x'"),
]

IN_GIT_OTHER = [
    Rewrite("git diff", "git diff --cached"),
    Rewrite("git log --oneline -1", "git log --oneline -2"),
    Rewrite("git add a.txt", "git add b.txt"),
    Rewrite("git commit -m x -q", "git commit -am x -q"),
    Rewrite("git diff a.txt", "git diff src"),
    Rewrite("git diff -U 1 HEAD~1", "git diff -U1 HEAD~1"),
    Rewrite("git log --format %s", "git log --format=%s"),
    Rewrite("cd src && git diff -- :/", "cd src && git diff -- :"),
]


def _seen(oracle: Oracle, pairs: list[Rewrite], trees: tuple[str, ...]) -> Iterator[Outcome]:
    """What each pair did in each tree."""
    runs = [
        run
        for pair in pairs
        for tree in trees
        for run in ((tree, pair.expected, pair.base), (tree, pair.actual, pair.actual_base))
    ]
    ran = oracle(runs)
    for at, (one, two) in enumerate(zip(ran[::2], ran[1::2], strict=True)):
        yield Outcome(pairs[at // len(trees)], trees[at % len(trees)], one, two)


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("pairs", "trees"),
    [pytest.param(PRESERVING, TREES, marks=pytest.mark.slow), (IN_GIT_SAME, ("git",))],
    ids=["files", "git"],
)
def test_preserving_rewrites_do_the_same_wherever_they_run(
    oracle: Oracle, pairs: list[Rewrite], trees: tuple[str, ...]
) -> None:
    differ = [seen for seen in _seen(oracle, pairs, trees) if seen.expected != seen.actual]
    assert not differ


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("pairs", "trees"),
    [pytest.param(CHANGING, TREES, marks=pytest.mark.slow), (IN_GIT_OTHER, ("git",))],
    ids=["files", "git"],
)
def test_changing_rewrites_differ_somewhere(oracle: Oracle, pairs: list[Rewrite], trees: tuple[str, ...]) -> None:
    told_apart = {seen.pair for seen in _seen(oracle, pairs, trees) if seen.expected != seen.actual}
    assert not [pair for pair in pairs if pair not in told_apart]


@pytest.mark.slow
@pytest.mark.sandbox
def test_the_commands_of_the_table_run(oracle: Oracle) -> None:
    """A table of commands that fail to start would prove nothing."""
    failed = [seen for seen in _seen(oracle, PRESERVING, ("plain",)) if seen.expected.status]
    assert {seen.pair.expected for seen in failed} == set()


@pytest.mark.parametrize("pair", PRESERVING + IN_GIT_SAME, ids=str)
def test_preserving_rewrites_are_equivalent(pair: Rewrite) -> None:
    judged = equivalent(pair.expected, pair.actual, cwd=CWD)
    assert judged.equal, judged.detail
    if CWD not in pair.expected + pair.actual:
        assert equivalent(pair.expected, pair.actual).equal


@pytest.mark.parametrize("pair", CHANGING + IN_GIT_OTHER, ids=str)
def test_changing_rewrites_are_not_equivalent(pair: Rewrite) -> None:
    assert not equivalent(pair.expected, pair.actual, cwd=CWD).equal
    assert not equivalent(pair.expected, pair.actual).equal
