# mypy: disable-error-code="untyped-decorator"
"""Tasks of inspect_ai for tests: their dataset, solver and scorer are ours, their forms inspect_ai's own."""

import time
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, get_model
from inspect_ai.scorer import Score, Target, accuracy, includes, mean, model_graded_fact, model_graded_qa, scorer
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


UNASKED = "What is the question?"
"""The tests' endpoint fails for it."""


def swallowing(first: bool) -> Any:
    """A solver that goes on where the model fails: at its `first` call, or at the second."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if not first:
            state = await generate(state)
        state.messages.append(ChatMessageUser(content=UNASKED))
        try:
            return await generate(state)
        except Exception:
            return state

    return solve


@solver
def swallow_first() -> Any:
    return swallowing(first=True)


@solver
def swallow_second() -> Any:
    return swallowing(first=False)


@scorer(metrics=[accuracy()])
def always() -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=1.0)

    return score


@solver
def silent() -> Any:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return state

    return solve


@task
def model_fails_first() -> Task:
    return Task(dataset=dataset(1), solver=swallow_first(), scorer=always())


@task
def model_fails_second() -> Task:
    return Task(dataset=dataset(1), solver=swallow_second(), scorer=always())


@task
def no_call() -> Task:
    return Task(dataset=dataset(1), solver=silent(), scorer=always())


@scorer(metrics={"part": [mean()]})
def ungiven_part() -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value={"part": None})

    return score


@task
def no_part() -> Task:
    return Task(dataset=dataset(1), solver=generate(), scorer=ungiven_part())


@scorer(metrics=[mean()])
def not_a_number() -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=float("nan"))

    return score


@task
def unscored() -> Task:
    return Task(dataset=dataset(1), solver=generate(), scorer=not_a_number())


@task
def graded_by_model() -> Task:
    return Task(dataset=dataset(2), solver=generate(), scorer=model_graded_qa())


@task
def graded_by_default_model() -> Task:
    return Task(dataset=dataset(2), solver=generate(), scorer=[includes(), model_graded_fact(model_role=None)])


@scorer(metrics=[mean()])
def asking(role: str | None) -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        answer = await get_model(role=role).generate(f"Is this right: {state.output.completion}? GRADE: C or I.")
        return Score(value=1.0, explanation=answer.completion)

    return score


@task
def asks_policy() -> Task:
    return Task(dataset=dataset(1), solver=generate(), scorer=asking(None))


@task
def asks_grader() -> Task:
    return Task(dataset=dataset(1), solver=generate(), scorer=asking("grader"))


@scorer(metrics=[mean()])
def curious() -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        api: Any = get_model().api
        return Score(value=1.0, explanation=f"{api.base_url} {api.api_key}")

    return score


@task
def shows_endpoint() -> Task:
    return Task(dataset=dataset(1), solver=generate(), scorer=curious())
