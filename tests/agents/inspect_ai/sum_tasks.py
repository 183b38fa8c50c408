# mypy: disable-error-code="untyped-decorator"
"""Tasks of inspect_ai for tests: their dataset, solver and scorer are ours, their forms inspect_ai's own."""

import time
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, Target, accuracy, includes, mean, scorer
from inspect_ai.solver import Generate, TaskState, generate, solver, system_message, use_tools
from inspect_ai.tool import Tool, tool

COUNT = 200


def dataset(count: int) -> MemoryDataset:
    pairs = [(number * 7 % 90 + 5, number * 11 % 80 + 3) for number in range(count)]
    return MemoryDataset(
        [Sample(input=f"What is {a} + {b}?", target=f"={a + b}.", id=f"s[{n}]") for n, (a, b) in enumerate(pairs)]
    )


@task
def sums(count: int = COUNT) -> Task:
    return Task(dataset=dataset(count), solver=[system_message("Be brief."), generate()], scorer=includes())


@tool
def add() -> Tool:
    async def execute(left: int, right: int) -> int:
        """Add two numbers.

        Args:
            left: The first.
            right: The second.
        """
        return left + right

    return execute


@task
def tool_sums() -> Task:
    return Task(dataset=dataset(4), solver=[use_tools(add()), generate()], scorer=includes())


@scorer(metrics={"length": [mean()], "right": [accuracy()]})
def several() -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        text = state.output.completion
        return Score(value={"length": len(text), "right": "C" if target.text in text else "I"}, explanation=text)

    return score


@task
def several_scores() -> Task:
    return Task(dataset=dataset(4), solver=generate(), scorer=several())


@scorer(metrics=[accuracy()])
def broken() -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        raise ValueError("the scorer is broken")

    return score


@task
def broken_scorer() -> Task:
    return Task(dataset=dataset(4), solver=generate(), scorer=broken())


@solver
def failing() -> Any:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        raise RuntimeError("the solver is broken")

    return solve


@task
def broken_solver() -> Task:
    return Task(dataset=dataset(4), solver=failing(), scorer=includes())


@task
def short_talk() -> Task:
    return Task(dataset=dataset(4), solver=[use_tools(add()), generate()], scorer=includes(), message_limit=2)


@task
def hanging() -> Task:
    @solver
    def hang() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            time.sleep(600)  # noqa: ASYNC251 - it has to block
            return state

        return solve

    return Task(dataset=dataset(1), solver=hang(), scorer=includes())
