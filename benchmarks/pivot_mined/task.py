"""Experts' trajectories in the setting of the training demonstration, and what a policy knows of their steps.

Steps   0, 3  the tests are run: what the starting policy does there, too.
        1     what `scripts/train_demo.py` asks for, with two kinds of errors and two modules: which is broken is named;
              the program follows from the kind, and the module is the other one. Of four commands the policy draws one.
        2     an edit. The policy was never taught to write one: it runs the tests.
Shapes  a trajectory is Chat messages with an `instance_id`. Those whose steps are held out have other wordings.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scripts.train_demo import ANSWERS, KINDS, REQUESTS

from benchmarks.pivot_mined.curves import KIND_OF_STEP, PIVOT
from paddock.resources_servers.pivot.mining.candidates import Candidates, PivotCandidate
from paddock.resources_servers.pivot.mining.forms import read_record
from paddock.types import JsonObject

PROGRAMS = ("cat", "pytest")
MODULES = ("parser", "cache")
RUN_TESTS = "pytest -q"
COMMANDS = tuple(f"{program} {module}.py" for program in PROGRAMS for module in MODULES)


class TaskTrajectories(NamedTuple):
    """The trajectories that are mined, and those whose steps are held out."""

    mined: list[JsonObject]
    held_out: list[JsonObject]


def make_trajectories() -> TaskTrajectories:
    """Return all trajectories; the split is that of the demonstration's rows."""
    split = TaskTrajectories([], [])
    for nth, request in enumerate(REQUESTS):
        for mth, answer in enumerate(ANSWERS):
            found = split.held_out if nth % len(ANSWERS) == mth else split.mined
            for kind in range(len(PROGRAMS)):
                for module in range(len(MODULES)):
                    found.append(_trajectory(f"t{nth}{mth}{kind}{module}", request, answer, kind, module))
    return split


def candidates_of(trajectories: list[JsonObject]) -> list[PivotCandidate]:
    """Return the steps of trajectories that may become rows."""
    found = Candidates(max_history_chars=10_000)
    for record in trajectories:
        found.add(read_record(record, record["instance_id"]))
    return found.rows


def policy_answers(candidate: PivotCandidate) -> tuple[str, ...]:
    """Return the commands that the starting policy is taught to answer a step with, each as often."""
    return COMMANDS if KIND_OF_STEP[candidate.step] == PIVOT else (RUN_TESTS,)


def _trajectory(name: str, request: str, answer: str, kind: int, module: int) -> JsonObject:
    target = MODULES[(module + 1) % len(MODULES)]
    shown = answer.format(kind=KINDS[kind], module=MODULES[module])
    steps = (
        (RUN_TESTS, shown),
        (f"{PROGRAMS[kind]} {target}.py", "see line 7"),
        (f"sed -i 7d {target}.py", "done"),
        (RUN_TESTS, "all passed"),
    )
    return {"instance_id": name, "messages": [{"role": "user", "content": request}, *_messages(steps)]}


def _messages(steps: tuple[tuple[str, str], ...]) -> Iterator[JsonObject]:
    for number, (command, result) in enumerate(steps):
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        yield {"role": "assistant", "content": "", "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"call_{number}", "content": result}


def write_lines(path: Path, lines: list[JsonObject]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
