"""How often each behaviour of sandboxes is tried on each runtime."""

from collections.abc import Iterator
from typing import Any

import pytest

from paddock.conformance.sandboxes import SUITE
from paddock.sandbox.runtimes import RUNTIMES

HEAVY = {
    "a fork bomb harms only its own sandbox",
    "a time limit kills what goes on forking",
    "a memory hog is killed and told, its sandbox lives",
    "who uses more CPU time than the limit has used up the budget",
    "50 MB of a shell's output is capped to head and tail as it comes",
    "files of 100 MB work, and are counted",
    "12 sandboxes live at once",
}
"""Of these, tests of cgroups, watchdog, processes and capture have a small case that is always run."""
SEEN_ELSEWHERE = {
    "a signal's exit code is 128 and its number",
    "a command's words arrive unchanged",
    "words that no program can get are the caller's mistake",
    "24 commands at once each get their own answer",
    "a time limit kills what ignores signals",
    "a time limit kills children in sessions of their own",
    "a time limit kills what was stopped",
    "a time limit leaves other commands, servers and shells alone",
    "what a command wrote before its time limit is kept",
    "50 MB of output is capped to head and tail as it comes",
    "output is cut at the byte that was asked for",
    "neither stream waits for the other",
    "merged streams keep their order",
    "what is written bit by bit comes whole",
    "any text is run as it stands",
    "syntax errors leave the shell alive",
    "a line may be 1 MB long",
    "^C on what ignores it leaves the shell alive and busy",
    "^C and time limits leave the servers of earlier lines alone",
    "what is typed is read by the line that runs",
    "a running line is polled, and no other is run beside it",
    "a shell is on a terminal of the size asked for",
    "exit closes a shell, and the next line opens another",
    "12 shells at once do not mix",
    "where there is no bash, sh does",
    "files get the mode asked for, and keep theirs",
    "wrong paths are told as what they are, at once",
    "folders of the image are removed and made anew",
    "folders and files of the image are renamed",
    "hard links, symbolic links, modes and times work",
    "memory maps and locks work",
    "git resets, cleans, stashes and switches",
    "uptime and clocks are the sandbox's own",
    "memory that looks like files is no disk",
    "a cancelled create leaves nothing",
    "nothing is told of the files of one that died",
    "a closed tunnel is closed, and its port is free",
}
"""Most of what harnesses do every day: their tests meet it in real sandboxes, too."""


assert {one.name for one in SUITE} >= HEAVY | SEEN_ELSEWHERE


def pairs() -> Iterator[Any]:
    """The same claims for each runtime: of one always, of a second some, the rest where there is time."""
    for runtime in (make.name for make in RUNTIMES):
        for one in SUITE:
            yield pytest.param(runtime, one, marks=marks_of(runtime, one.name), id=f"{runtime}-{one.name}")


def marks_of(runtime: str, name: str) -> list[pytest.MarkDecorator]:
    if runtime == "bubblewrap":
        return [pytest.mark.slow] if name in HEAVY | SEEN_ELSEWHERE else []
    number = [one.name for one in SUITE].index(name)
    return [pytest.mark.long if runtime != "apptainer" or name in SEEN_ELSEWHERE or number % 6 else pytest.mark.slow]
