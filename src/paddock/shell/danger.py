"""What programs may do to a machine, as tables: which run others, which only read, which write, which destroy.

Source  the manual pages of coreutils, findutils, util-linux, procps and git.
Shapes  names without their directory. A program that no table names is unknown: not destructive, and not only reading.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Level = Literal["reads", "unknown", "writes", "destroys"]
Words: TypeAlias = Sequence[str | None]


class Harm(NamedTuple):
    level: Level
    why: str = ""


READS_ONLY = Harm("reads")


class HarmContext(NamedTuple):
    """Where a command runs: paths as `paths.join` gives them."""

    start: str
    """The directory that the whole script started in."""
    here: str
    finds: int = 0
    """How many `find -exec` it stands inside."""


class ScriptText(NamedTuple):
    """Text that a program runs as a script of the shell."""

    text: str


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A program that runs the program on its command line."""

    valued: str = ""
    """Short options that take a value."""
    long_valued: frozenset[str] = frozenset()
    """Long options that take the next word."""
    skips: int = 0
    """Operands before the program."""
    feeds: bool = False
    """Adds operands that are not on the command line."""


WRAPPERS: dict[str, Wrapper] = {
    "sudo": Wrapper("ughpCDRTUrt", _names("--user --group --host --prompt --chdir --chroot")),
    "doas": Wrapper("uC"),
    "env": Wrapper("uC", _names("--unset --chdir")),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "nice": Wrapper("n", _names("--adjustment")),
    "ionice": Wrapper("cn", _names("--class --classdata")),
    "time": Wrapper("fo", _names("--format --output")),
    "timeout": Wrapper("ks", _names("--kill-after --signal"), skips=1),
    "stdbuf": Wrapper("ioe", _names("--input --output --error")),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "exec": Wrapper("a"),
    "chroot": Wrapper(skips=1),
    "flock": Wrapper("wE", skips=1),
    "busybox": Wrapper(),
    "coproc": Wrapper(),
    "unshare": Wrapper(),
    "watch": Wrapper("nq", _names("--interval")),
    "strace": Wrapper("eopsu"),
    "xargs": Wrapper("IinPLldaEs", _names("--replace --max-args --max-procs --delimiter --arg-file"), feeds=True),
    "parallel": Wrapper("jIN", feeds=True),
}

SHELLS = _names("sh bash dash ash zsh ksh")
PYTHONS = _names("python python2 python3 pypy pypy3")
DOWNLOADERS = _names("curl wget fetch aria2c")

DESTROYS = _names(
    "shred mkfs mke2fs wipefs fdisk sfdisk parted mkswap pkill killall killall5 shutdown reboot halt poweroff userdel "
    "groupdel dropdb srm"
)
"""Destructive however they are called, unless only for help."""

WRITES = _names(
    "cp mv ln touch mkdir rmdir tee patch install chmod chown chgrp truncate tar unzip gunzip gzip zip rsync split "
    "mktemp mkfifo rename pip pip3 npm yarn apt apt-get wget"
)

READS = _names(
    "grep egrep fgrep rg ag ls dir cat head tail wc uniq cut tr nl tac rev column fold paste join comm echo printf "
    "test [ pwd which type file stat du df diff cmp md5sum sha1sum sha256sum sha512sum cksum basename dirname "
    "realpath readlink whoami id uname printenv ps tree less more jq xxd od hexdump strings true false : cd export "
    "set unset local declare typeset readonly read return exit break continue shift pushd popd dirs unalias "
    "shopt wait sleep seq expr hostname groups locale tty nproc free uptime man help history hash let numfmt base64 "
    "base32 getconf lsof pgrep"
)
"""Programs that change no file, whatever their options."""

MORE: dict[str, tuple[str, ...]] = {
    "ag": ("", "--pager"),
    "file": ("C", "--compile"),
    "less": ("oO", "--log-file", "--LOG-FILE"),
    "man": ("PH", "--pager", "--html"),
    "rg": ("", "--pre", "--hostname-bin"),
    "tree": ("o", "--output"),
    "xxd": ("r", "--revert"),
}
"""Options with which programs of `READS` write a file or run another program: short letters, then long ones."""

STEERS = _names(
    "PATH IFS ENV BASH_ENV PAGER MANPAGER EDITOR VISUAL LESSOPEN LESSCLOSE PROMPT_COMMAND RIPGREP_CONFIG_PATH"
)
"""Variables through which a program is made to run another; so are those that begin with `GIT_` or `LD_`."""

GIT_READS = _names(
    "status log show blame grep ls-files ls-tree rev-parse rev-list describe shortlog cat-file name-rev merge-base "
    "help version whatchanged show-ref diff-tree for-each-ref count-objects"
)

SYSTEM = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/opt",
    "/proc",
    "/root",
    "/sbin",
    "/srv",
    "/sys",
    "/usr",
    "/var",
)
"""Directories that no task owns."""

HARMLESS_FILES = _names("/dev/null /dev/stdout /dev/stderr /dev/tty /dev/zero")
SCRATCH = ("/tmp", "/var/tmp")  # noqa: S108
