"""Writes commands by chance: `grammar.py SEED COUNT` prints JSON, a list of [command, base]. Standard library only.

Law     one seed gives one list, without repeats. It comes in chapters, each of few words in many spellings, so that many
        commands mean the same and many more nearly do. What a command reads, enters, changes or removes is in every
        tree of `driver.py`; what it makes is in none; what it removes or moves nothing else in it names.
Shapes  `base`: the directory, relative to the tree, that the relative paths in the command's output start from; a
        command that prints a relative path prints it from this one place.
"""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from posixpath import basename, relpath
from random import Random
from typing import NamedTuple

ROOT = "/mnt/repo"
CHAPTER = 400
"""Lines per chapter, repeats included."""
FILES = ("a.txt", "b.txt", "src/m.py", "src/pkg/n.py", "with space.txt")
LEFT = ("old.tmp", "docs/old/o.md", "docs/old")
"""Files and a directory that only commands which remove or replace them name."""
DIRS = (".", "src", "docs", "src/pkg")
NEW = ("new", "src/new", "docs/new")
DETOURS = {".": "docs/../", "src": "pkg/../", "docs": "../docs/", "src/pkg": "../pkg/"}
"""From each directory, a longer way to itself."""
GLOBS = {
    ".": ("*.txt", "./*.txt", "src/*.py", "src//*.py", "docs/*.md", f"{ROOT}/*.txt", "{a,b}.txt", "[ab].txt", "*/m.py"),
    "src": ("*.py", "./*.py", "../*.txt", "pkg/*", "../src/*.py", "?.py"),
    "docs": ("*.md", "./*.md", "../*.txt", "../src/*.py"),
    "src/pkg": ("*", "./*", "*.py", "../*.py", "../pkg/*.py"),
}
PATTERNS = (
    "needle", "TODO", "needle two", "x.y", "^needle", "n.*e", "[0-9]", "needle|TODO", "needle\\|TODO", "a b",
)  # fmt: skip
TEXTS = (
    "x", "a b", "a  b", "needle", "$x", "-n", "%s", "a\\nb", "a\\tb", "it's", "*", "#x", "~", "{a,b}", "100%", "\\",
)  # fmt: skip
COUNTS = ("1", "2", "3", "5", "9", "10", "30", "55")

Spellings = tuple[tuple[str, ...], ...]
"""Each option in its spellings."""

OPTIONS: dict[str, Spellings] = {
    "grep": (
        ("-n", "--line-number"), ("-i", "--ignore-case"), ("-v", "--invert-match"), ("-c", "--count"),
        ("-l", "--files-with-matches"), ("-w", "--word-regexp"), ("-x", "--line-regexp"), ("-o", "--only-matching"),
        ("-H", "--with-filename"), ("-h", "--no-filename"), ("-q", "--quiet"), ("-s",), ("-L",), ("-b",), ("-z",),
        ("-A 1", "-A1", "--after-context=1", "--after-context 1"), ("-B 1", "-B1"), ("-C 1", "-1", "--context=1"),
        ("-m 2", "-m2", "--max-count=2"), ("-E", "--extended-regexp"), ("-F", "--fixed-strings"),
        ("--include='*.py'", '--include "*.py"', "--include=\\*.py"), ("--exclude=m.py", "--exclude 'm.py'"),
        ("--exclude-dir=pkg", "--exclude-dir 'pkg'"), ("--exclude-dir=src",), ("--exclude='src/*'",),
    ),
    "ls": (
        ("-l",), ("-a", "--all"), ("-A", "--almost-all"), ("-1",), ("-r", "--reverse"), ("-S", "--sort=size"),
        ("-t", "--sort=time"), ("-R", "--recursive"), ("-d", "--directory"), ("-F", "--classify"), ("-p",), ("-U",),
        ("-h", "--human-readable"), ("-s", "--size"), ("-X",), ("-v",), ("-m",), ("-x",), ("-C",), ("-Q",), ("-n",),
        ("-g",), ("-o",), ("-I '*.py'", "--ignore=*.py"), ("--full-time",), ("--group-directories-first",),
    ),
    "rm": (("-r", "-R", "--recursive"), ("-f", "--force"), ("-v", "--verbose"), ("-d", "--dir")),
    "mkdir": (("-p", "--parents"), ("-v", "--verbose"), ("-m 700", "-m700", "--mode=700")),
    "touch": (("-c", "--no-create"), ("-a",), ("-m",)),
    "cp": (("-r", "-R", "--recursive"), ("-a", "--archive"), ("-v", "--verbose"), ("-f",), ("-n",), ("-T",), ("-p",),
           ("-l",), ("-P",)),
    "mv": (("-f", "--force"), ("-n", "--no-clobber"), ("-v", "--verbose"), ("-T",)),
    "chmod": (("-R", "--recursive"), ("-v", "--verbose"), ("-c", "--changes"), ("-f",)),
    "wc": (("-l", "--lines"), ("-w", "--words"), ("-c", "--bytes"), ("-m",), ("-L",)),
    "sort": (("-r", "--reverse"), ("-n", "--numeric-sort"), ("-u", "--unique"), ("-k2", "-k 2", "--key=2"), ("-f",)),
    "uniq": (("-c", "--count"), ("-d", "--repeated"), ("-i", "--ignore-case"), ("-u",)),
    "cut": (("-d' ' -f1", "-f 1 -d ' '", "-d ' ' -f1"), ("-c1-3", "-c 1-3", "--characters=1-3"), ("-b1-3",)),
    "cat": (("-n", "--number"), ("-A",), ("-E", "--show-ends"), ("-s",), ("-b",)),
    "du": (("-a", "--all"), ("-b", "--bytes"), ("-s", "--summarize"), ("-c", "--total"), ("-d 1", "--max-depth=1")),
    "nl": (("-ba", "-b a", "--body-numbering=a"), ("-w 3", "-w3")),
}  # fmt: skip

TESTS: Spellings = (
    ("-name '*.py'", '-name "*.py"', "-name \\*.py"), ("-type f",), ("-type d",), ("-name m.py", "-name 'm.py'"),
    ("! -name '*.py'", "-not -name '*.py'"), ("-iname 'M*'",), ("-name src",), ("-name '.*'",), ("-name '*'",),
    ("-empty",), ("-size +0",), ("-maxdepth 1",), ("-mindepth 1",), ("-depth",), ("-print",), ("-print0",), ("-o",),
    ("-a", "-and"), ("-path './src/*'",), ("-path '*pkg*'",), ("-perm 644",), ("-name '[a-m]*'",), ("-quit",),
    ("-exec cat {} \\;", "-exec cat {} ';'"), ("-prune",),
)  # fmt: skip

RANGES = (
    "sed -n {a},{b}p{f}", "sed -n '{a},{b}p'{f}", "sed -n -e '{a},{b}p;'{f}", "sed --quiet --expression={a},{b}p{f}",
    "sed -n {b}p{f}", "sed -n '{a},$p'{f}", "sed -n '$p'{f}", "sed '1,{a}d'{f}", "sed '{b},$d'{f}", "sed -n p{f}",
    "sed {b}q{f}", "sed {a},{b}p{f}", "head{f}", "head -{b}{f}", "head -n {b}{f}", "head -n{b}{f}",
    "head --lines={b}{f}", "head -n -{a}{f}", "head -c {b}{f}", "tail{f}", "tail -{b}{f}", "tail -n {b}{f}",
    "tail -n +{a}{f}", "tail -n -{b}{f}", "tail -c {b}{f}", "cat{f}", "head -{b}{f} | tail -n +{a}",
    "tail -n +{a}{f} | head -{b}", "head -{b}{f} | tail -{a}", "awk 'NR<={b}'{f}",
)  # fmt: skip
FILTERS = ("wc", "sort", "uniq", "cut", "cat", "nl", "tac", "sed", "grep", "cut out")


class Words(NamedTuple):
    """The words of one chapter."""

    files: list[str]
    patterns: list[str]
    texts: list[str]
    counts: list[str]
    ranges: list[str]
    tests: list[tuple[str, ...]]
    filters: list[str]
    options: dict[str, list[tuple[str, ...]]]


class Grammar:
    """Writes one chapter."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.where = "."
        """The directory in which the part that is being written runs."""
        few = random.sample
        self.words = Words(
            files=few(FILES, 2), patterns=few(PATTERNS, 2), texts=few(TEXTS, 3), counts=few(COUNTS, 3),
            ranges=few(RANGES, 8), tests=few(TESTS, 4), filters=few(FILTERS, 4),
            options={name: few(options, min(4, len(options))) for name, options in OPTIONS.items()},
        )  # fmt: skip
        kinds = (
            self.search, self.listing, self.found, self.lines, self.piped, self.several, self.tested, self.said,
            self.sent, self.told, self.written,
        )  # fmt: skip
        self.kinds = few(kinds, 4)

    def line(self) -> tuple[str, str]:
        """A command and its base."""
        self.where = "."
        if self.chance(0.6):
            return self.one(self.around, self.around, self.around, self.entered_nowhere, self.after_quiet), "."
        return self.entered()

    def pick(self, *of: str) -> str:
        return self.random.choice(of)

    def one(self, *ways: Callable[[], str]) -> str:
        return self.random.choice(ways)()

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # Words

    def quoted(self, word: str) -> str:
        double = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
        cut = self.random.randrange(len(word) + 1)
        return self.pick(
            *[shlex.quote(word)] * 4,
            "'" + word.replace("'", "'\\''") + "'",
            f'"{double}"',
            "".join(char if char.isalnum() or char in "/._" else f"\\{char}" for char in word),
            shlex.quote(word[:cut]) + shlex.quote(word[cut:]),
        )

    def path(self, path: str) -> str:
        near = relpath(path, self.where)
        full = ROOT if path == "." else f"{ROOT}/{path}"
        return self.quoted(
            self.pick(near, near, near, near, f"./{near}", full, DETOURS[self.where] + near, near.replace("/", "//"))
        )

    def file(self) -> str:
        return self.path(self.pick(*self.words.files))

    def files(self) -> str:
        return " ".join(self.file() for _ in range(self.random.choice((1, 1, 2))))

    def folder(self) -> str:
        path = self.path(self.pick(*DIRS))
        return path + "/" if path[-1] not in "\"'/" and self.chance(0.15) else path

    def globbed(self) -> str:
        """What matches files alone: `cat` and `grep` do not accept a directory."""
        return self.pick(*GLOBS[self.where])

    def listed(self) -> str:
        """What may match directories, too."""
        return self.pick(*GLOBS[self.where], "*", "./*")

    def options(self, name: str, most: int = 3) -> list[str]:
        """Some options, of which the short ones may be in one cluster."""
        table = self.words.options[name]
        chosen = [
            self.pick(*each) for each in self.random.sample(table, min(self.random.randrange(most + 1), len(table)))
        ]
        short = [each for each in chosen if len(each) == 2 and each[1].isalpha()]
        if len(short) > 1 and self.chance(0.4):
            chosen = [each for each in chosen if each not in short] + ["-" + "".join(each[1] for each in short)]
        return chosen

    def program(self, name: str, operands: Sequence[str], options: Sequence[str] | None = None) -> str:
        """Options before operands, and at times behind or among them."""
        words = list(operands)
        for option in self.options(name) if options is None else options:
            words.insert(self.random.randrange(len(words) + 1) if self.chance(0.25) else 0, option)
        return " ".join((name, *words))

    # Commands that only read

    def search(self) -> str:
        options = self.options("grep")
        pattern = self.quoted(self.pick(*self.words.patterns))
        recursive = self.chance(0.4)
        if recursive:
            options.append(self.pick("-r", "-r", "--recursive", "-R", "-d recurse"))
        where = [self.folder()] if self.chance(0.8) else [] if self.where == "." else ["."]
        where = where if recursive else [self.files()]
        name = self.pick("grep", "grep", "grep", "egrep", "fgrep")
        if self.chance(0.2):
            return self.program(name, where, [*options, f"-e {pattern}", *(["-e TODO"] if self.chance(0.3) else [])])
        return self.program(name, [pattern, *where], options)

    def listing(self) -> str:
        return self.program(
            "ls", self.random.choice(([], [self.folder()], [self.folder()], [self.files()], [self.listed()]))
        )

    def found(self) -> str:
        points = self.random.choice(
            ([], [self.folder()], [self.folder()], [self.folder(), self.folder()], [self.file()])
        )
        tests = self.random.sample(self.words.tests, self.random.choice((0, 1, 1, 2, 2, 3)))
        return " ".join(("find", *points, *(self.pick(*each) for each in tests)))

    def lines(self) -> str:
        """A range of lines of a file, given as an operand, a redirection or through a pipe."""
        first, second = self.cut_out(""), self.cut_out("")
        file = self.file()
        return self.pick(
            self.cut_out(f" {file}"), self.cut_out(f" {file}"), self.cut_out(f" < {file}"), f"cat {file} | {first}",
            f"cat < {file} | {first}", f"< {file} {first}", f"cat {file} | {first} | {second}",
            f"{self.cut_out(f' {file}')} | {second}", f"cat {file} | cat | {first}",
        )  # fmt: skip

    def cut_out(self, source: str) -> str:
        return self.pick(*self.words.ranges).format(
            a=self.pick(*self.words.counts), b=self.pick(*self.words.counts), f=source
        )

    def filter(self, source: str = "") -> str:
        """A filter, of its standard input where there is no source."""
        name = self.pick(*self.words.filters)
        if name == "tac":
            return f"tac{source}"
        if name == "sed":
            script = self.pick("s/needle/pin/", "'s/needle/pin/g'", "-e s/needle/pin/g", "-n /needle/p", "=")
            return f"sed {script}{source}"
        if name == "grep":
            options = " ".join(("grep", *self.options("grep", 1)))
            return f"{options} {self.quoted(self.pick(*self.words.patterns))}{source}"
        if name == "cut out":
            return self.cut_out(source)
        if name == "cut":
            return f"cut {self.pick(*self.random.choice(self.words.options['cut']))}{source}"
        return self.program(name, [], self.options(name, 2)) + source

    def piped(self) -> str:
        file = self.file()
        first = self.one(
            lambda: f"cat {file}", lambda: self.filter(f" {file}"), lambda: self.filter(f" < {file}"),
            self.search, self.listing, self.found, lambda: f"cat {self.files()}",
        )  # fmt: skip
        return " | ".join((first, *(self.filter() for _ in range(self.random.choice((1, 1, 2))))))

    def several(self) -> str:
        """Files whose names show, or are matched by the shell."""
        return self.pick(
            self.program("wc", [self.files()]), f"head -2 {self.files()}", f"tail -n 2 {self.files()}",
            f"cat {self.globbed()}", f"head -q -n 2 {self.files()}", f"sort {self.files()}", f"cat -- {self.files()}",
            f"grep -c needle {self.globbed()}", f"echo {self.listed()}",
            f"find {self.folder()} -name '*.py' | xargs {self.pick('cat', 'wc -l', 'grep -n needle', 'ls')}",
            self.program("du", self.random.choice(([], [self.folder()], [self.files()]))),
        )  # fmt: skip

    def tested(self) -> str:
        flag = self.pick("-f", "-d", "-e", "-s", "-x", "-r", "! -f", "! -d", "-n")
        path = self.one(self.file, self.folder, self.new)
        test = self.pick(f"[ {flag} {path} ]", f"test {flag} {path}", f"[[ {flag} {path} ]]", f"! [ {flag} {path} ]")
        return test + self.pick("", " && echo yes", " || echo no", " && echo yes || echo no", "; echo $?", " && true")

    # Text and the environment

    def said(self) -> str:
        text = self.pick(*self.words.texts)
        word = self.quoted(text)
        return self.pick(
            f"echo {word}", f"echo {word}", f"echo -n {word}", f"echo -e {word}", f"printf {word}",
            f"printf '%s' {word}", f"printf '%s\\n' {word}", f'printf "%s\\n" {word} y', f"printf -- {word}",
            f"cat <<< {word}", f"echo {word} | cat", f"echo {word} {self.quoted(self.pick(*self.words.texts))}",
        )  # fmt: skip

    def sent(self) -> str:
        """Text or a command's output, into a file or elsewhere."""
        new = self.new()
        to = self.pick(
            f"> {new}", f">{new}", f">> {new}", f">| {new}", f"> {new} 2>&1", f"&> {new}", f"| tee {new}", ">&2",
            "2>&1", "> /dev/null", "2>/dev/null", f"2> {new}", "| cat", "|& cat", f"1> {new}",
            f">> {self.path('old.tmp')}", "3>&1 1>&2 2>&3", f"> {new} < {self.file()}",
        )  # fmt: skip
        if self.chance(0.3):
            body, tag = self.pick(*self.words.texts), self.pick("<<E", "<<'E'", '<<"E"', "<<-E")
            return f"cat {self.pick(to, '')} {tag}\n{body}\nE"
        run = f"bash {self.path('run.sh')}"
        return f"{self.one(self.said, self.search, self.listing, self.lines, lambda: run)} {to}"

    def told(self) -> str:
        """A program with variables in its environment."""
        run = self.pick("bash -c 'echo $A$B'", "printenv A", "echo $A", f"cat {self.file()}", "echo x", 'test -n "$A"')
        value = self.pick("1", "'1'", '"1"', "2", "~", "'~'", "$HOME", "x:~/y", "''")
        return self.pick(
            f"A={value} {run}", f"env A={value} {run}", f"export A={value}; {run}", f"export A={value} && {run}",
            f"A={value} B=2 {run}", f"B=2 A={value} {run}", f"env B=2 A={value} {run}", f"export A={value} B=2; {run}",
            f"B=2 env A={value} {run}", f"A={value}; {run}", f"(export A={value}; {run})",
            f"export A=9; A={value} {run}", f"A={value}; export A; {run}", f"export A={value}\n{run}",
            f"A=5 A={value} {run}",
        )  # fmt: skip

    # Commands that write

    def new(self) -> str:
        return self.path(self.pick(*NEW))

    def left(self) -> str:
        return self.path(self.pick(*LEFT))

    def written(self) -> str:
        return self.one(self.made, self.made, self.removed, self.copied, self.changed)

    def made(self) -> str:
        first, second = self.random.sample(NEW, 2)
        paths = [self.path(first)] + ([self.path(second)] if self.chance(0.5) else [])
        if self.chance(0.3):
            return self.program(
                "mkdir", [f"{paths[0]}/a", *paths[1:]], [self.pick("-p", "--parents"), *self.options("mkdir", 1)]
            )
        return self.program(self.pick("mkdir", "touch"), paths)

    def removed(self) -> str:
        one, other = self.path("old.tmp"), self.path(self.pick("docs/old/o.md", "docs/old"))
        return self.program("rm", self.random.choice(([one], [other], [one, other], [other, one])))

    def copied(self) -> str:
        docs = self.path("docs")
        if self.chance(0.3):
            return self.program("mv", [self.path("old.tmp"), self.pick(docs, self.path("docs/old"), self.new())])
        if self.chance(0.15):
            return self.program("cp", [self.pick(f"-t {docs}", f"--target-directory={docs}"), self.file()])
        source = self.one(self.file, lambda: self.path("src/pkg"))
        return self.program("cp", [source, self.pick(docs, self.new(), self.left())])

    def changed(self) -> str:
        script = self.pick(
            "s/needle/pin/g", "-e s/needle/pin/g", "'s/needle/pin/g'", "-E s/needle/pin/g", "3d", "-n 1,3p"
        )
        mode = self.pick("600", "644", "go-r", "u+x")
        return self.pick(
            f"sed -i {script} {self.file()}", self.program("chmod", [mode, self.one(self.file, self.folder)])
        )

    # How commands are put together

    def basic(self) -> str:
        return self.one(*self.kinds)

    def quiet(self) -> str:
        """A command that prints whole lines, and no path."""
        return self.pick(
            "true", f"touch {self.new()}", f"wc -l < {self.file()}", f"grep needle {self.file()}",
            f"head -2 {self.path('b.txt')}", f"cat {self.path('src/m.py')}", "echo x", f"[ -f {self.file()} ]",
        )  # fmt: skip

    def around(self) -> str:
        """A command, at times in a frame that may or may not change what it does."""
        if self.chance(0.6):
            return self.basic()
        run = self.basic()
        if "<<" in run:
            return run
        return self.pick(
            f"true && {run}", f"{run} && true", f"{run}; true", f"{run} || true", f"( {run} )", f"{{ {run}; }}",
            f"{run};", f"{run} # c", f"! {run}", f"{run}\n", f"{run}; echo $?", f"{run} && echo $?", f"{run} | cat",
            f"{run} 2>&1", f"command {run}", f"true; {run}", f": && {run}", f"({run} && true)", f"{{ {run}; }} 2>&1",
            f"({run}) | cat", f"if true; then {run}; fi", f'x=$({run}); echo "$x"', f"{run} | wc -l", f"set -e; {run}",
            f"true || {run}", f"false || {run}", f"for i in 1; do {run}; done", f"{run} && {self.quiet()}",
            f"{self.quiet()}; {run}",
        )  # fmt: skip

    def entered(self) -> tuple[str, str]:
        where = self.pick(*DIRS[1:])
        into = self.path(where)
        self.where = where
        run = self.around()
        if "<<" in run:
            return self.pick(f"cd {into} && {run}", f"cd {into}; {run}\n", f"(cd {into}; {run}\n)"), where
        steps = f"cd {basename(where)}" if "/" not in where else "cd src && cd pkg"
        return self.pick(
            f"cd {into} && {run}", f"cd {into} && {run}", f"cd {into}; {run}", f"(cd {into} && {run})",
            f"cd {into}\n{run}", f"(cd {into}; {run})", f"cd {into} || exit 1; {run}", f"{{ cd {into}; {run}; }}",
            f"cd {into} && ({run})", f"{steps} && {run}", f"cd {into} && {run} | cat",
            f"cd docs && cd .. && cd {where} && {run}",
        ), where  # fmt: skip

    def entered_nowhere(self) -> str:
        """Ends where it began."""
        run = self.basic()
        return self.pick(
            f"cd . && {run}", f"cd {ROOT} && {run}", f"cd {ROOT}; {run}", f"cd src && cd .. && {run}",
            f"cd src/..; {run}", f"cd src | cat; {run}", f"(cd src && pwd); {run}", f"cd docs; cd ../; {run}",
        )  # fmt: skip

    def after_quiet(self) -> str:
        """Two commands, the first in a directory of its own."""
        where = self.pick(*DIRS[1:])
        into = self.path(where)
        self.where = where
        first, back = self.quiet(), relpath(".", where)
        self.where = "."
        run = self.basic()
        return self.pick(
            f"(cd {into} && {first}); {run}", f"(cd {into} && {first}) && {run}",
            f"cd {into}; {first}; cd {back}; {run}", f"cd {into} && {first} && cd {back} && {run}",
            f"(cd {into}; {first}; {first}); {run}",
        )  # fmt: skip


def main() -> None:
    seed, count = map(int, sys.argv[1:])
    random = Random(seed)
    found: dict[tuple[str, str], None] = {}
    while len(found) < count:
        grammar = Grammar(random)
        found.update((grammar.line(), None) for _ in range(CHAPTER))
    json.dump(list(found), sys.stdout)


main()
