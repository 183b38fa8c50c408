"""Claims about step rewards of a SWE rollout, over real sandboxes: the run goes on while steps are judged."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from paddock.agents.swe.config import SweAgentConfig
from paddock.harness import Exit, Model, OnStep, RunLimits, Step, Task, Workspace
from paddock.http import SCORE_STEP, Call, Route, StepRequest, StepScore, rollout_from_wire
from paddock.server import Handler, Server, ServerConfig
from paddock.types.responses import call_item, message_item, turn_id_of

pytestmark = pytest.mark.sandbox
JUDGED = {"server": {"type": "resources_servers", "name": "steps"}, "coefficient": 0.5, "score_timeout_s": 60.0}
VOTES: dict[int, Any] = {1: [1, 1, 1], 2: [1, None, -1], 3: [1, 1, -1]}


class Stepper:
    """Three turns, the second without a call."""

    KIND: ClassVar[Any] = "harnesses"

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        for turn in (1, 2, 3):
            response = await model.respond({"input": f"{task.prompt} {turn}"})
            output = [message_item(f"turn {turn}")]
            if turn != 2:
                call = call_item("exec", "{}")
                output += [call, {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}]
            report(Step(turn=turn, output=output, turn_id=turn_id_of(response)))
        return Exit(ended="finished", turns=3)


class OrderedJudge(Server[ServerConfig]):
    """Answers when it is told to."""

    KIND = "resources_servers"

    def __init__(self, name: str = "steps") -> None:
        super().__init__(ServerConfig(), name=name, peers={})
        self.asked: list[StepRequest] = []
        self.running = 0
        self.open: Callable[[], bool] = lambda: True

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {SCORE_STEP: self._score}

    async def _score(self, request: StepRequest, call: Call) -> StepScore:
        self.asked.append(request)
        self.running += 1
        try:
            while not self.open():
                await asyncio.sleep(0.01)
        finally:
            self.running -= 1
        return StepScore.of(request.step_id, VOTES[int(request.step_id[-1])], [])


async def test_steps_are_judged_while_the_rollout_goes_on_and_each_names_its_recorded_turn(standing: Any) -> None:
    judge = OrderedJudge()
    async with standing(f"{__name__}:Stepper", beside=[judge], step_rewards=JUDGED) as stand:
        judge.open = lambda: bool(stand.world.judged)  # not before the work is graded
        rollout = await stand.run()
    assert (rollout.outcome, rollout.failure) == ("completed", None)
    verdict = rollout.verdict
    assert abs(verdict.metrics["mean_step_score"] - 4 / 9) < 1e-12
    assert abs(verdict.reward - 0.5 * 4 / 9) < 1e-9
    assert verdict.reward_components == {"outcome": 0.0, "steps": verdict.reward}
    told = verdict.extras["step_rewards"]
    assert [(step["step_id"], step["score"]) for step in told["scores"]] == [
        ("step_1", 1.0),
        ("step_2", 0.0),
        ("step_3", 1 / 3),
    ]
    assert [step["turn_id"] for step in told["scores"]] == [turn.id for turn in rollout.turns]
    assert judge.asked[2].problem == "add(1, 2) gives -1."
    assert [len(items) for items in judge.asked[2].history] == [3, 1]
    assert rollout_from_wire(rollout.to_wire()) == rollout


async def test_a_rollout_of_which_no_step_was_judged_has_no_reward(standing: Any) -> None:
    judge = OrderedJudge()
    judge.open = lambda: False
    block = {**JUDGED, "score_timeout_s": 0.1}
    async with standing(f"{__name__}:Stepper", beside=[judge], step_rewards=block) as stand:
        rollout = await stand.run()
        assert (judge.running, len(judge.asked)) == (0, 3)
    assert (rollout.outcome, rollout.verdict, rollout.failure.kind) == ("verifier", None, "steps_unjudged")


async def test_where_the_config_says_so_its_reward_is_the_outcome_alone(standing: Any) -> None:
    judge = OrderedJudge()
    judge.open = lambda: False
    values = {"failed": -1.0, "passed": 1.0}
    block = {**JUDGED, "score_timeout_s": 0.1, "outcome_values": values, "unscored": "outcome"}
    async with standing(f"{__name__}:Stepper", beside=[judge], step_rewards=block) as stand:
        rollout = await stand.run()
        assert (judge.running, len(judge.asked)) == (0, 3)
    assert (rollout.outcome, rollout.reward) == ("completed", -1.0)
    assert rollout.verdict.reward_components == {"outcome": -1.0}
    assert (rollout.verdict.metrics["steps_scored"], rollout.verdict.metrics["steps_missing"]) == (0, 3)


async def test_a_rollout_that_fails_has_no_steps_and_leaves_none_running(standing: Any) -> None:
    judge = OrderedJudge()
    judge.open = lambda: False
    async with standing(f"{__name__}:BreakingStepper", beside=[judge], step_rewards=JUDGED) as stand:
        rollout = await stand.run()
        assert (judge.running, len(judge.asked)) == (0, 1)
    assert (rollout.outcome, rollout.verdict) == ("infra", None)
    assert "step_rewards" not in rollout.to_wire()


class BreakingStepper(Stepper):
    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        report(Step(turn=1, output=[message_item("turn 1")]))
        await asyncio.sleep(0.1)
        raise ValueError("the harness broke")


def test_the_judge_of_steps_is_a_resources_server() -> None:
    servers = {
        "resources_server": {"type": "resources_servers", "name": "world"},
        "model_server": {"type": "models_servers", "name": "policy"},
    }
    block = {"server": {"type": "models_servers", "name": "policy"}}
    with pytest.raises(ValueError, match="needs a resources server"):
        SweAgentConfig.model_validate({**servers, "harness": "null", "step_rewards": block})
