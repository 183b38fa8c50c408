"""What is known of each command: its options, what its operands are, and what can change its output.

Source  the manual pages of GNU grep, sed, coreutils, of git and of pytest. A command that is not here is compared word
        by word. A command is here only when all of `CommandSpec`'s claims about it hold for every option in its table.
Shapes  `COMMANDS[name]`, and `COMMANDS["git diff"]` for a subcommand. The notation of options is that of `options`.
"""

from dataclasses import dataclass
from typing import Literal

from paddock.shell.options import NumberPosition

Role = Literal["path", "text"]


@dataclass(frozen=True, slots=True)
class CommandSpec:
    options: str
    first: Role = "path"
    """What the first operand is."""
    others: Role = "path"
    """What each further operand is."""
    default: str | None = None
    """The operand that stands for none; None: standard input, or nothing."""
    number: str | None = None
    """The option that `-5` is short for."""
    number_position: NumberPosition = "anywhere"
    """Where that short form is an option."""
    mixes: bool = True
    """Options may follow operands."""
    any_order: str | None = None
    """The option with which the order of operands cannot matter, unless one lies below another or the command reports
    each of them; empty: with any options; None: never."""
    in_place: bool = True
    """The working directory matters only through paths; else it is compared too."""
    filters: bool = False
    """Reads standard input as it would read a file, whether that is a pipe or not."""
    nameless: bool = False
    """A filter that never prints the name of its one file: a file is the same as standard input from it."""
    prints_names: Literal["always", "verbose", "never"] = "always"
    """When the spelling of a path shows in the output; `verbose`: only with that option."""
    sure: bool = False
    """Exits with 0 when its inputs exist."""
    keep_slash: bool = False
    """A final `/`, `.` or `..` can change what a path means."""


COMMANDS: dict[str, CommandSpec] = {
    "grep": CommandSpec(
        "E|extended-regexp/matcher F|fixed-strings/matcher G|basic-regexp/matcher P|perl-regexp/matcher e|regexp= "
        "f|file=@ i|ignore-case/case no-ignore-case/case v|invert-match w|word-regexp x|line-regexp c|count "
        "L|files-without-match/list l|files-with-matches/list m|max-count= o|only-matching q|quiet|silent "
        "s|no-messages b|byte-offset H|with-filename/name h|no-filename/name label= n|line-number T|initial-tab "
        "Z|null A|after-context= B|before-context= C|context= a|text/binary binary-files=/binary I/binary "
        "d|directories=/recurse R|dereference-recursive/recurse r|recursive/recurse exclude=/glob exclude-dir=/glob "
        "include=/glob line-buffered z|null-data",
        first="text",
        number="C",
        filters=True,
    ),
    "ls": CommandSpec(
        "a|all/all A|almost-all/all b|escape/quote B|ignore-backups c/time C/format color?/color d|directory D|dired "
        "F|classify?/mark file-type/mark full-time/format g/format group-directories-first G|no-group "
        "h|human-readable/size si/size H|dereference-command-line/link i|inode I|ignore= k|kibibytes/size l/format "
        "L|dereference/link m/format n|numeric-uid-gid/format N|literal/quote o/format p/mark "
        "q|hide-control-chars/quote Q|quote-name/quote r|reverse R|recursive s|size S/sort sort=/sort t/sort "
        "time=/time time-style=/format u/time U/sort v/sort x/format X/sort 1/format",
        default=".",
        sure=True,
    ),
    "cat": CommandSpec(
        "A|show-all b|number-nonblank e E|show-ends n|number s|squeeze-blank t T|show-tabs u v|show-nonprinting",
        filters=True, nameless=True, prints_names="never", sure=True,
    ),
    "head": CommandSpec(
        "n|lines=/count c|bytes=/count q|quiet|silent/name v|verbose/name z|zero-terminated",
        number="n", number_position="first", filters=True, sure=True,
    ),
    "tail": CommandSpec(
        "n|lines=/count c|bytes=/count q|quiet|silent/name v|verbose/name z|zero-terminated",
        number="n", number_position="alone", filters=True, sure=True,
    ),
    "wc": CommandSpec("c|bytes l|lines m|chars w|words L|max-line-length", filters=True, sure=True),
    "sort": CommandSpec(
        "b|ignore-leading-blanks d|dictionary-order f|ignore-case g|general-numeric-sort h|human-numeric-sort "
        "i|ignore-nonprinting M|month-sort n|numeric-sort r|reverse V|version-sort k|key= m|merge o|output=@ s|stable "
        "t|field-separator= u|unique z|zero-terminated",
        filters=True, nameless=True, prints_names="never",
    ),
    "uniq": CommandSpec(
        "c|count d|repeated D f|skip-fields= i|ignore-case s|skip-chars= u|unique w|check-chars= z|zero-terminated",
        filters=True, nameless=True, prints_names="never", sure=True,
    ),
    "cut": CommandSpec(
        "b|bytes= c|characters= d|delimiter= f|fields= complement s|only-delimited output-delimiter= z|zero-terminated",
        filters=True, nameless=True, prints_names="never",
    ),
    "tr": CommandSpec("c|C|complement d|delete s|squeeze-repeats t|truncate-set1",
                  first="text", others="text", mixes=False, filters=True, prints_names="never"),
    "tac": CommandSpec("b|before s|separator=", filters=True, nameless=True, prints_names="never"),
    "nl": CommandSpec("b|body-numbering= n|number-format= s|number-separator= v|starting-line-number= w|number-width=",
                  filters=True, nameless=True, prints_names="never"),
    "sed": CommandSpec(
        "n|quiet|silent e|expression=/script f|file=@/script E|r|regexp-extended i|in-place?/place s|separate/place "
        "u|unbuffered z|null-data",
        first="text", filters=True,
    ),
    "du": CommandSpec("a|all b|bytes/size c|total d|max-depth= h|human-readable/size k/size m/size s|summarize "
                  "x|one-file-system",
                  default="."),
    "mkdir": CommandSpec("p|parents v|verbose m|mode=", any_order="p", prints_names="verbose"),
    "rmdir": CommandSpec("v|verbose", prints_names="verbose", keep_slash=True),
    "touch": CommandSpec("a c|no-create m", any_order="", prints_names="verbose", keep_slash=True),
    "rm": CommandSpec("r|R|recursive f|force/ask i/ask I/ask v|verbose d|dir",
                  any_order="r", prints_names="verbose", keep_slash=True),
    "chmod": CommandSpec("R|recursive v|verbose/tell f|quiet|silent c|changes/tell",
                     first="text", prints_names="verbose", keep_slash=True),
    "cp": CommandSpec(
        "a|archive/link d/link f|force/ask H/link i|interactive/ask l|link L|dereference/link n|no-clobber/ask p "
        "P|no-dereference/link r|R|recursive t|target-directory=@ T|no-target-directory u|update "
        "v|verbose x|one-file-system",
        prints_names="verbose", keep_slash=True,
    ),
    "mv": CommandSpec("f|force/ask i|interactive/ask n|no-clobber/ask t|target-directory=@ T|no-target-directory "
                      "u|update v|verbose",
                  prints_names="verbose", keep_slash=True),
    "pytest": CommandSpec(
        "x|exitfirst q|quiet v|verbose s/capture capture=/capture l|showlocals lf|last-failed ff|failed-first k= m= "
        "n|numprocesses= p= r= c|config-file=@ W|pythonwarnings= o|override-ini= tb= maxfail=/exitfirst durations= "
        "timeout= rootdir=@ ignore=@ deselect= no-header no-summary co|collect-only sw|stepwise color= "
        "disable-warnings|disable-pytest-warnings cache-clear junitxml|junit-xml=@ import-mode= runxfail",
        in_place=False, prints_names="never",
    ),
    "pip install": CommandSpec(
        "r|requirement=@ e|editable=@ c|constraint=@ q|quiet v|verbose U|upgrade no-deps user pre no-build-isolation "
        "no-cache-dir force-reinstall i|index-url= t|target=@ break-system-packages",
        first="text", others="text", in_place=False, prints_names="never",
    ),
    "git status": CommandSpec("s|short/format long/format porcelain?/format b|branch u|untracked-files? ignored? z",
                          in_place=False, prints_names="never"),
    "git diff": CommandSpec(
        "stat?/format shortstat/format numstat/format name-only/format name-status/format p|u|patch/format "
        "no-patch|s/format cached|staged color?/color no-color/color w|ignore-all-space b|ignore-space-change "
        "U|unified?/format R check/format exit-code quiet no-ext-diff no-renames a|text",
        first="text", others="text", in_place=False, prints_names="never",
    ),
    "git log": CommandSpec(
        "oneline/format n|max-count= p|u|patch/format stat?/format name-only/format name-status/format pretty?/format "
        "format?/format graph all author= since|after= until|before= grep= reverse follow decorate?/decorate "
        "no-decorate/decorate no-merges S= G=",
        first="text", others="text", number="n", in_place=False, prints_names="never",
    ),
    "git show": CommandSpec(
        "stat?/format name-only/format name-status/format p|u|patch/format no-patch|s/format pretty?/format "
        "format?/format oneline/format color?/color no-color/color",
        first="text", others="text", in_place=False, prints_names="never",
    ),
    "git add": CommandSpec("A|all u|update v|verbose n|dry-run f|force",
                       in_place=False, any_order="", prints_names="never"),
    "git commit": CommandSpec("a|all m|message= q|quiet amend no-edit n|no-verify allow-empty s|signoff",
                          first="text", others="text", in_place=False, prints_names="never"),
    "git branch": CommandSpec("a|all r|remotes v|verbose show-current",
                          first="text", others="text", in_place=False, prints_names="never"),
}  # fmt: skip

PLAIN_NAMES: dict[str, tuple[str, ...]] = {
    "egrep": ("grep", "-E"),
    "fgrep": ("grep", "-F"),
    "python3": ("python",),
    "pip3": ("pip",),
    "py.test": ("pytest",),
}
"""Names that stand for others."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


READERS = _names("grep ls cat head tail wc sort uniq cut tr tac nl du lines")
"""Forms of commands that die silently when the reader of their output goes away, having changed nothing."""

FOLLOWS_SHELL = _names(
    "alias unalias set shopt eval source . trap exec hash enable builtin pushd popd dirs unset let wait fg bg jobs "
    "suspend ulimit umask logout history fc bind complete compgen times caller shift getopts mapfile readarray"
)
"""Builtins whose effect on what follows is not modelled: a script with one of them is compared as written."""

SHELL_STATE = _names("export declare typeset local readonly read exit return break continue printf")
"""Builtins that can change the shell they run in."""

CHANGES_SHELL = (FOLLOWS_SHELL | SHELL_STATE | {"cd"}) - {"printf"}
"""Builtins that may leave their shell otherwise than they found it; `printf` does so by an option."""

BUILTINS = FOLLOWS_SHELL | SHELL_STATE | _names("echo test [ pwd true false : cd kill command time type env")
"""Names that mean something else to the shell than to `env`."""

SHELL_NAMES = _names(
    "PATH IFS PWD OLDPWD HOME CDPATH ENV BASH_ENV SHELLOPTS BASHOPTS POSIXLY_CORRECT GLOBIGNORE LANG LANGUAGE TZ "
    "GREP_OPTIONS GREP_COLORS GREP_COLOR LS_COLORS TMPDIR COLUMNS LINES SHELL UID EUID OPTIND REPLY BASH"
)
"""Variables that change how the shell or a known command reads its words."""

STRUCTURE_NAMES = _names("PIPESTATUS _ BASH_SUBSHELL BASHPID BASH_COMMAND BASH_LINENO LINENO")
"""Variables that tell how a script is written."""
