"""Claims about views of files, held against what bash prints: what is called the same shows the same lines.

Every line of the two files is another one, so lines can be told apart whatever stands in front of them.
"""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.types import JsonObject

LINES = 60
LINE = re.compile(r"line [ab] [0-9]+")
EXACT = {"read_min_coverage": 1.0, "read_max_ratio": 1.0, "read_extra_lines": 0}
FORMS = [
    "sed -n '{a},{b}p' {f}",
    "sed -n {a},{b}p {f} | cat -n",
    "sed -n '{a},${{}}p' {f}".replace("${{}}", "$"),
    "sed -n '{a},+{n}p' {f}",
    "sed -n '{a},{b}p;{b}q' {f}",
    "sed '{a},{b}!d' {f}",
    "sed {b}q {f}",
    "sed '1,{a}d' {f}",
    "sed -n '{a},{b}{{=;p}}' {f}",
    "awk 'NR>={a} && NR<={b}' {f}",
    "awk 'NR>{a}&&NR<{b}{{print NR\": \"$0}}' {f}",
    "awk 'NR=={a},NR=={b} {{printf \"%5d  %s\\n\", NR, $0}}' {f}",
    "awk 'NR=={a}' {f}",
    "cat {f}",
    "cat -n {f} | sed -n '{a},{b}p'",
    "nl -ba {f} | head -n {b}",
    "head -{b} {f}",
    "head -n {b} {f} | tail -n +{a}",
    "head -n {b} {f} | tail -n {n}",
    "tail -n +{a} {f}",
    "tail -n +{a} {f} | head -{n}",
    "tail -{n} {f}",
    "cat {f} | tail -n {n}",
    "cat < {f} | head -n {b}",
    "grep -n '' {f} | sed -n '{a},{b}p'",
    "sed -n '{a},{b}p' {f}; sed -n '{c},{d}p' {f}",
    "sed -n '{a},{b}p;{c},{d}p' {f}",
    "cat {f} b.txt",
]


@st.composite
def views(draw: st.DrawFn, last: int) -> str:
    """A command that shows lines of a file; numbers of few values, so that different commands often meet."""
    form = draw(st.sampled_from(FORMS))
    a = draw(st.sampled_from([1, 2, 10, 41]))
    b = draw(st.sampled_from([number for number in (41, 42, 50, 60, 61, 75) if number <= last]))
    d = draw(st.sampled_from([number for number in (60, 75) if number <= last]))
    n = draw(st.sampled_from([1, 10, 20, b - a + 1]))
    return form.format(a=a, b=b, c=min(b + 1, last), d=d, n=min(n, last), f=draw(st.sampled_from(["a.txt", "b.txt"])))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    for name in "ab":
        (folder / f"{name}.txt").write_text("".join(f"line {name} {number}\n" for number in range(1, LINES + 1)))
    return folder


def history(tree: Path) -> list[JsonObject]:
    """Return a history in which both files are shown."""
    items: list[JsonObject] = []
    for name in ("a.txt", "b.txt"):
        arguments = json.dumps({"command": f"cat {name}"})
        items.append({"type": "function_call", "name": "bash", "call_id": name, "arguments": arguments})
        items.append({"type": "function_call_output", "call_id": name, "output": (tree / name).read_text()})
    return items


def printed(command: str, tree: Path) -> set[str]:
    done = subprocess.run(["bash", "-c", command], cwd=tree, capture_output=True, text=True, check=False)
    return set(LINE.findall(done.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_views_that_are_the_same_print_the_same_lines(
    score: Callable[..., Any], tree: Path, known: bool, data: st.DataObject
) -> None:
    # Where the length is not known, a line number is taken to be one of the file's.
    command = views(75 if known else LINES)
    commands = data.draw(st.lists(command, min_size=5, max_size=5))
    shown = [printed(command, tree) for command in commands]
    calls = [("bash", {"command": command}) for command in commands]
    past = history(tree) if known else []
    for i, expected in enumerate(calls):
        for j, actual in enumerate(calls[:i]):
            if score(expected, actual, history=past, **EXACT).reward == 1:
                assert shown[i] == shown[j], (commands[i], commands[j])
