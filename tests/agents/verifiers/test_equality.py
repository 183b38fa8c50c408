"""Claims about rollouts of verifiers' environments: rewards, metrics and ends are those that its own command gives."""

from pathlib import Path

import pytest
from tests.agents.verifiers.conftest import by_task, needs_verifiers, our_traces, run_both

from paddock.testing.upstream import ScriptedAnswer
from paddock.types import JsonObject

pytestmark = needs_verifiers


def graded_reply(body: JsonObject, nth: int) -> ScriptedAnswer:
    """An answer in `graded_text`, by its task: right, wrong, late, stopped, endless, cut or empty."""
    messages = body["messages"]
    number = int(messages[1]["content"].split(":")[0].removeprefix("Task "))
    turn = sum(message["role"] == "assistant" for message in messages)
    right = f"It is {number * 37}."
    match number % 8:
        case 0:
            return ScriptedAnswer(f"{right} DONE")
        case 1:
            return ScriptedAnswer(f"It is {number}. DONE")
        case 2:
            return ScriptedAnswer(f"{right} DONE" if turn == 2 else "I think.")
        case 3:
            return ScriptedAnswer(f"{right} HALT")
        case 4:
            return ScriptedAnswer(f"I think of {turn}.")
        case 5:
            return ScriptedAnswer("It is", finish_reason="length") if turn else ScriptedAnswer("So,")
        case 6:
            return ScriptedAnswer("DONE \u00e9\u4e2d\U0001f40e" * (1 + number % 5))
        case _:
            return ScriptedAnswer(right if turn == 0 else "")


async def test_rewards_and_metrics_of_208_tasks_are_those_of_its_own_command(tmp_path: Path) -> None:
    env = {"agent": {"harness": {"id": "local_chat"}, "max_turns": 4}}
    runs = await run_both(tmp_path, "graded_text", env, graded_reply)
    theirs, ours = by_task(runs.theirs), by_task(our_traces(runs.ours))
    assert len(theirs) == len(ours) == 208
    assert ours == theirs
    assert len({task["stop"] for task in theirs.values()}) > 2
    rewards = {trace["task"]["data"]["idx"]: trace["rewards"] for trace in runs.theirs}
    for rollout in runs.ours:
        parts = rewards[rollout["task_data"]["idx"]]
        expected = sum(part["score"] * part["weight"] for part in parts.values())
        assert rollout["reward"] == pytest.approx(expected, abs=1e-12)
        stopped = theirs[rollout["task_data"]["idx"]]["stop"]
        is_cut = stopped == "max_turns" or rollout["task_data"]["idx"] % 8 == 5
        assert rollout["rollout"]["outcome"] == ("truncated" if is_cut else "completed")
        sampled = sum(node["sampled"] for node in rollout["response"]["verifiers"]["traces"][0]["nodes"])
        assert len(rollout["rollout"]["turns"]) == sampled
    assert len({rollout["reward"] for rollout in runs.ours}) > 10


async def test_tools_of_a_task_serve_the_harness_null(tmp_path: Path) -> None:
    def reply(body: JsonObject, nth: int) -> ScriptedAnswer:
        (tool,) = body["tools"]
        last = body["messages"][-1]
        name = body["messages"][0]["content"].rstrip("?").split()[-1]
        if last["role"] == "tool":
            return ScriptedAnswer(f"{name}: {last['content']}")
        return ScriptedAnswer(calls=((tool["function"]["name"], f'{{"name": "{name}"}}'),))

    runs = await run_both(tmp_path, "table_lookup", {}, reply)
    assert [trace["rewards"] for trace in runs.theirs] == [{"answered": {"score": 1.0, "weight": 1.0}}] * 3
    assert [rollout["reward"] for rollout in runs.ours] == [1.0] * 3
    for rollout in runs.ours:
        kinds = [item["type"] for item in rollout["response"]["output"]]
        assert kinds == ["function_call", "function_call_output", "message"]
        assert len(rollout["rollout"]["turns"]) == 2
