"""The code blocks of pages, and a walk through one: what it says is done, in its order.

Blocks   indented text and console fences hold commands; a fence with a title is a file of that name, any other Python
         fence a script.
Commands a comment ends one, a backslash has it go on.
Walk     commands of `NOT_RUN` are left to the reader, who sets up his machine; servers are stopped when they have
         answered; a command that no rule knows is an error, so that none is passed over unseen.
"""

import os
import re
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
WALKED = ("README.md", "docs/start.md", "docs/write_environment.md")
"""Pages of which every command runs, in this order and in one folder."""
NOT_RUN = frozenset({"make", ".", "export", "pip", "git", "cd", "eval", "ssh"})
"""`eval` is the shell's."""
SERVERS = ("view", "serve")
"""Commands of paddock that go on until they are stopped; the first line that they print has an address."""
_FENCE = re.compile(r"```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_PLACEHOLDERS = {"N": "1", "M": "1", "S": "1", "i/n": "0/2", "I/N": "0/2"}
_URL = re.compile(r"https?://\S+")


class PageBlock(NamedTuple):
    """A block of code. `language`: empty for an indented one, `text` for a fence without one."""

    language: str
    title: str
    text: str


def blocks(text: str) -> Iterator[PageBlock]:
    """Fenced and indented blocks of a page, in its order."""
    at = 0
    for found in _FENCE.finditer(text):
        yield from _indented(text[at : found.start()])
        yield PageBlock(found[1] or "text", found[2] or "", found[3])
        at = found.end()
    yield from _indented(text[at:])


def commands(block: PageBlock) -> list[list[str]]:
    """The words of each command in a block of commands; of another block, none."""
    if block.language not in ("", "console", "bash", "sh") or block.title:
        return []
    lines = re.sub(r" *\\\n *", " ", block.text).splitlines()
    shells = [line.strip().removeprefix("$ ") for line in lines]
    return [_words(line) for line in shells if re.match(r"(?:[A-Z_]+=\S* )*[a-z.]+ ", f"{line} ")]


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # no command, but indented text of another kind
        return line.split()


def paddock_words(words: list[str]) -> list[str] | None:
    """What follows `paddock` in a command, placeholders of numbers filled in; None: it is another program's."""
    while words and re.fullmatch(r"[A-Z_0-9]+=.*", words[0]):
        words = words[1:]
    if not words or words[0] != "paddock":
        return None
    ends = next((at for at, word in enumerate(words) if word in (">", "|", ">>")), len(words))
    return [_PLACEHOLDERS.get(word, word) for word in words[1:ends] if word != "..."]


def walk(page: Path, folder: Path, python: Path, environment: Mapping[str, str]) -> int:
    """Do what a page says in a folder, with an interpreter; the number of commands and scripts that were run."""
    n_run = 0
    environment = {**environment, "PATH": f"{python.parent}{os.pathsep}{environment['PATH']}"}
    for block in blocks(page.read_text()):
        if block.title:
            (folder / block.title).write_text(block.text)
        elif block.language == "python":
            _run([str(python), "-c", block.text], folder, environment)
            n_run += 1
        for words in commands(block):
            n_run += _do(words, page, folder, python, environment)
    return n_run


def _do(words: list[str], page: Path, folder: Path, python: Path, environment: Mapping[str, str]) -> bool:
    ours = paddock_words(words)
    if ours is not None and ours[0] in SERVERS and "--dry-run" not in ours:
        _answer([str(python), "-m", "paddock", *ours], folder, environment)
    elif ours is not None:
        _run([str(python), "-m", "paddock", *ours], folder, environment)
    elif words[0] == "python":
        _run([str(python), *words[1:]], folder, environment)
    elif words[0] in NOT_RUN:
        return False
    else:
        raise ValueError(f"{page.name}: no rule for `{shlex.join(words)}`")
    return True


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}\nexit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def _answer(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Start a server, ask it for what its address names, and interrupt it."""
    running = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        said = _URL.search(running.stdout.readline())
        if said is None:
            raise RuntimeError(f"{shlex.join(command)}: it printed no address")
        with urllib.request.urlopen(said[0], timeout=30) as answer:
            answer.read()
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(30)
        running.stdout.close()


def _indented(text: str) -> Iterator[PageBlock]:
    for found in re.finditer(r"(?:(?<=\n\n)|^)(?: {4}.*\n(?:\n(?= {4}))?)+", text):
        yield PageBlock("", "", re.sub(r"^ {4}", "", found[0], flags=re.MULTILINE))
