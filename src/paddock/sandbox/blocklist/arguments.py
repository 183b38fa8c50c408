"""Parses a command's words into subcommand, options and operands.

Law     an option that takes a value is `name=value`, attached or not (`-S x`, `-Sx`, `--author x`); switches in a
        cluster are apart (`-rf` is `-r`, `-f`); `-12` stays. `--` ends the options. What a program does otherwise is
        its `ProgramProfile`; a program without one has the plain GNU reading, in which no option takes the next word.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, NamedTuple

from pydantic import BeforeValidator

from paddock.sandbox.blocklist.commands import LineCommand
from paddock.shell.paths import join
from paddock.types import Record
from paddock.types.renamed import RenamedKeys


def _split(value: object) -> object:
    return frozenset(value.split()) if isinstance(value, str) else value


Names = Annotated[frozenset[str], BeforeValidator(_split)]
"""In a file: words in one string."""


class ProgramProfile(RenamedKeys, Record):
    """How one program reads its command line."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {"valued": "value_options", "under": "subcommand_value_options"}

    programs: str
    """Pattern of the program's names."""
    subcommand: bool = False
    """Whether its first operand is a subcommand."""
    value_options: Names = frozenset()
    """Options that take the next word; with subcommands, those that stand before it."""
    subcommand_value_options: dict[str, Names] = {}
    """Options behind a subcommand that take the next word, by its name; several names in one string share them."""
    long: bool = False
    """Options are words behind one dash, as with `find`."""
    text_first: Names = frozenset()
    """The first operand is a text (`grep`'s pattern) and left out, unless one of these options is given."""
    pathspecs: bool = False
    """What follows `--` are paths of no interest."""
    signals: bool = False
    """Its first dash word is a signal, and further ones are operands, as with `kill`."""

    def taking(self, subcommand: str) -> frozenset[str]:
        taking: frozenset[str] = frozenset()
        for names, more in self.subcommand_value_options.items():
            if subcommand in names.split():
                taking = taking | more
        return taking


class ParsedCommand(NamedTuple):
    """A command as rules look at it."""

    program: str
    """Its name without the directory."""
    subcommand: str
    options: tuple[str, ...]
    operands: tuple[str, ...]
    source: LineCommand

    def paths(self) -> list[str]:
        """Operands as seen from where the command runs; `~` and what expands stay in front."""
        return [resolve(self.source.directory, operand) for operand in self.operands]


def resolve(directory: str, path: str) -> str:
    if not path:
        return ""
    if path.startswith(("~", "$")):
        return join("/", path)[1:]
    if directory.startswith(("~", "$")):
        return join("/", f"{directory}/{path}")[1:] if not path.startswith("/") else join("/", path)
    return join(directory, path)


_PROGRAM_FOLDERS = frozenset({"bin", "sbin", ".bin"})
PLAIN = ProgramProfile(programs="")


def program_name(word: str) -> str:
    """A program's name without its directory; a path into no folder of programs is a file of the task's, and stays."""
    folder, slash, name = word.rpartition("/")
    return word if slash and (not name or folder.rpartition("/")[2] not in _PROGRAM_FOLDERS) else name


def parse_arguments(source: LineCommand, profile: ProgramProfile | None) -> ParsedCommand:
    if not source.words:
        return ParsedCommand("", "", (), (), source)
    program = program_name(source.words[0])
    reader = _ArgumentReader(profile or PLAIN, list(source.words[1:]))
    reader.run()
    return ParsedCommand(program, reader.subcommand, tuple(reader.options), tuple(reader.operands), source)


class _ArgumentReader:
    def __init__(self, profile: ProgramProfile, words: list[str]) -> None:
        self.profile = profile
        self.words = words
        self.at = 0
        self.subcommand = ""
        self.options: list[str] = []
        self.operands: list[str] = []
        self.valued = profile.value_options

    def run(self) -> None:
        if self.profile.signals:
            self.kill()
            return
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if word == "--":
                if not self.profile.pathspecs:
                    self.operands.extend(self.words[self.at :])
                break
            if word.startswith("--") or (self.profile.long and word.startswith("-") and len(word) > 1):
                self.long(word)
            elif word.startswith("-") and len(word) > 1:
                self.short(word)
            elif self.profile.subcommand and not self.subcommand:
                self.subcommand = word
                self.valued = self.profile.taking(word)
            else:
                self.operands.append(word)
        names = {option.partition("=")[0] for option in self.options}
        if self.profile.text_first and not names & self.profile.text_first:
            del self.operands[:1]

    def long(self, word: str) -> None:
        if word in ("-exec", "-execdir", "-ok", "-okdir") and self.profile.long:
            rest = self.words[self.at :]
            end = next((index for index, word in enumerate(rest) if word in (";", "+")), len(rest))
            self.options.append(f"{word}={' '.join(rest[:end])}")
            self.at += end + 1
        else:
            self.options.append(f"{word}={self.next()}" if word in self.valued else word)

    def short(self, word: str) -> None:
        if word[1:].isdecimal():
            self.options.append(word)
            return
        for index, letter in enumerate(word[1:], 2):
            option = f"-{letter}"
            if option in self.valued:
                self.options.append(f"{option}={word[index:] or self.next()}")
                return
            self.options.append(option)

    def next(self) -> str:
        value = self.words[self.at] if self.at < len(self.words) else ""
        self.at += 1
        return value

    def kill(self) -> None:
        words = self.words
        if len(words) == 1 and words[0].startswith("-") and words[0] != "-1":
            self.options = list(words)
            return
        if len(words) > 1 and words[0].startswith("-"):
            self.at = 2 if words[0] in ("-s", "-n", "--signal") else 0 if words[0] == "--" else 1
            self.options.extend(words[: self.at])
        self.operands = [word for word in words[self.at :] if word != "--"]
