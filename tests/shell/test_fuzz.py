"""Commands that a grammar wrote by chance: where `equivalent` calls two equal, they are run and must do the same.

Law     the same output up to the spelling of a path and the line that bash names in its messages, the same status, the
        same names, contents and modes, in every tree: what the grammar reads exists in each.
"""

import json
import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from posixpath import normpath
from typing import Any, NamedTuple

import pytest

from paddock.shell import equivalent, parse
from paddock.shell.normal import normal_form

Oracle = Callable[[Sequence[tuple[str, str, str]]], list[Any]]
"""Runs (tree, command, base of relative paths) and tells output, status and files of each."""

GRAMMAR = Path(__file__).with_name("grammar.py")
ROOT = "/mnt/repo"
AS_PRINTED = "/"
"""The base at which the driver leaves relative paths as they were printed."""
TREES = ("plain", "crowded", "bare")
SEEDS = (1, 2, 3, 4)
COMMANDS = 20_000
"""Written per seed."""
PAIRS = 1500
"""Run per seed, in each tree."""
AT_MOST = 5
"""Commands of one meaning that are run."""
BATCH = 1000

TOKEN = re.compile(r"([\s:'\"\0]+)")
LINE = re.compile(r"(?<=: )line \d+(?=: )")
NOW = re.compile(r"\b[A-Z][a-z]{2} [ \d]\d \d\d:\d\d\b|\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.(?!0{9})\d{9}")
"""How `ls` writes the time of a file that the command itself, or the making of its tree, changed."""


class Command(NamedTuple):
    text: str
    base: str
    """The directory that the relative paths in its output start from."""


class Pair(NamedTuple):
    expected: Command
    actual: Command


def _written(seed: int) -> list[Command]:
    done = subprocess.run(
        [sys.executable, "-I", str(GRAMMAR), str(seed), str(COMMANDS)], capture_output=True, text=True, check=True
    )
    return [Command(*each) for each in json.loads(done.stdout)]


def _groups(commands: Sequence[Command]) -> list[list[Command]]:
    """The commands of each normal form, as written first."""
    found: dict[object, list[Command]] = defaultdict(list)
    for command in commands:
        script = parse(command.text)
        if not script.error:
            found[normal_form(script, ROOT).form].append(command)
    return list(found.values())


def _chosen(groups: Sequence[Sequence[Command]], seed: int) -> list[list[Command]]:
    """Some of each of some groups, so that they make about `PAIRS` pairs."""
    chance = random.Random(seed)
    several = [list(group) for group in groups if len(group) > 1]
    chance.shuffle(several)
    chosen: list[list[Command]] = []
    left = PAIRS
    for group in several:
        if left <= 0:
            break
        chosen.append(chance.sample(group, min(AT_MOST, len(group))))
        left -= len(chosen[-1]) - 1
    return chosen


def _ran(oracle: Oracle, commands: Sequence[Command]) -> dict[tuple[str, str], Any]:
    """What each command did, by tree and text."""
    runs = [(tree, command.text, AS_PRINTED) for command in commands for tree in TREES]
    found: dict[tuple[str, str], Any] = {}
    for start in range(0, len(runs), BATCH):
        batch = runs[start : start + BATCH]
        found.update({run[:2]: ran for run, ran in zip(batch, oracle(batch), strict=True)})
    return found


def _same(pair: Pair, expected: Any, actual: Any) -> bool:
    return (expected.status, expected.files) == (actual.status, actual.files) and _prints_same(
        pair, expected.output, actual.output
    )


def _prints_same(pair: Pair, expected: str, actual: str) -> bool:
    first, second = (TOKEN.split(NOW.sub("now", LINE.sub("line", output))) for output in (expected, actual))
    return len(first) == len(second) and all(
        one == other or _full(one, pair.expected.base) == _full(other, pair.actual.base)
        for one, other in zip(first, second, strict=True)
    )


def _full(path: str, base: str) -> str:
    return normpath(f"{ROOT}/{base}/{path}" if not path.startswith("/") else path)


def _told(seed: int, pair: Pair, tree: str, expected: Any, actual: Any) -> str:
    lines = [f"seed {seed}, tree {tree!r}"]
    for command, ran, other in ((pair.expected, expected, actual), (pair.actual, actual, expected)):
        own = {path: content[:200] for path, content in ran.files.items() if other.files.get(path) != content}
        lines += [f"  {command.text!r}", f"    status {ran.status}, output {ran.output[:600]!r}", f"    alone: {own}"]
    return "\n".join(lines)


def _unequal(seed: int, pairs: Sequence[Pair], ran: dict[tuple[str, str], Any]) -> Iterator[str]:
    """Each pair that did not do the same, told for the first tree in which it did not."""
    for pair in pairs:
        for tree in TREES:
            expected, actual = ran[tree, pair.expected.text], ran[tree, pair.actual.text]
            if not _same(pair, expected, actual):
                yield _told(seed, pair, tree, expected, actual)
                break


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_commands_that_are_judged_equal_do_the_same(oracle: Oracle, seed: int) -> None:
    groups = _chosen(_groups(_written(seed)), seed)
    pairs = [Pair(group[0], each) for group in groups for each in group[1:]]
    assert len(pairs) >= PAIRS
    assert all(equivalent(pair.expected.text, pair.actual.text, cwd=ROOT).equal for pair in pairs)
    ran = _ran(oracle, [command for group in groups for command in group])
    differ = list(_unequal(seed, pairs, ran))
    assert not differ, f"{len(differ)} of {len(pairs)} pairs\n" + "\n".join(differ[:20])
    neighbours = [Pair(one, other) for one, other in pairwise(sorted(group[0] for group in groups))]
    told_apart = len(list(_unequal(seed, neighbours, ran)))
    assert told_apart > 0.8 * len(neighbours), f"only {told_apart} of {len(neighbours)} unequal pairs did differ"
