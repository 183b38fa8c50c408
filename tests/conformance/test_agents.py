"""Claims about the agents' suite: the single-step agent passes it, and each behaviour catches a broken one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import ConfigDict

from paddock.agents.single_step import SingleStepAgent
from paddock.agents.single_step.server import SingleStepConfig
from paddock.conformance import BehaviourResult, suite_for
from paddock.conformance.target import REFERENCES
from paddock.http import FORGET, Call, Peer
from paddock.types import Rollout, Row, Stamp, Timing, Usage, Verdict

WRONG = Verdict(reward=0.0, reason="assumed")
CALLERS: list[Any] = []
"""The tasks of tests: an agent that is called directly runs in one of them."""


class Changed(SingleStepAgent):
    """Runs as it should, then `change`s the rollout."""

    def change(self, rollout: Rollout, call: Call) -> Rollout:
        raise NotImplementedError

    async def run(self, row: Row, call: Call) -> Rollout:
        return self.change(await super().run(row, call), call)


class Pessimist(Changed):
    def change(self, rollout: Rollout, call: Call) -> Rollout:
        return rollout.model_copy(update={"verdict": WRONG})


class Harsh(Changed):
    def change(self, rollout: Rollout, call: Call) -> Rollout:
        return rollout if rollout.reward != 0.0 else rollout.model_copy(update={"outcome": "infra", "verdict": None})


class Optimist(Changed):
    def change(self, rollout: Rollout, call: Call) -> Rollout:
        return rollout.model_copy(update={"outcome": "completed", "failure": None, "verdict": rollout.verdict or WRONG})


class Rewriting(Changed):
    def change(self, rollout: Rollout, call: Call) -> Rollout:
        return rollout.model_copy(update={"row": rollout.row.model_copy(update={"stamp": Stamp()})})


class Turnless(Changed):
    def change(self, rollout: Rollout, call: Call) -> Rollout:
        return rollout.model_copy(update={"turns": [], "usage": Usage()})


class Timeless(Changed):
    def change(self, rollout: Rollout, call: Call) -> Rollout:
        return rollout.model_copy(update={"timing": Timing()})


class Indiscreet(Changed):
    def change(self, rollout: Rollout, call: Call) -> Rollout:
        return rollout.model_copy(update={"response": {"ran_as": call.rollout_secret}})


class Tupled(Changed):
    def change(self, rollout: Rollout, call: Call) -> Rollout:
        return rollout.model_copy(update={"response": {"pair": (1, 2)}})


class WiredAgent(Changed):
    def change(self, rollout: Rollout, call: Call) -> Rollout:
        if asyncio.current_task() is CALLERS[-1] or rollout.verdict is None:
            return rollout
        return rollout.model_copy(update={"verdict": WRONG})


class StubbornAgent(SingleStepAgent):
    async def run(self, row: Row, call: Call) -> Rollout:
        try:
            return await super().run(row, call)
        except asyncio.CancelledError:
            return Rollout(row=row, outcome="completed", response={}, verdict=WRONG)


class SharedAgent(SingleStepAgent):
    async def run(self, row: Row, call: Call) -> Rollout:
        self.__dict__["row"] = row
        await asyncio.sleep(0)
        return await super().run(self.__dict__["row"], call)


class HoardingAgent(SingleStepAgent):
    @property
    def model(self) -> Peer:
        return Keeping(super().model)


class Keeping:
    """A peer that is never told to forget."""

    def __init__(self, peer: Peer) -> None:
        self.name = peer.name
        self._peer = peer

    async def call(self, route: Any, request: Any, call: Call, **path: str) -> Any:
        return {} if route is FORGET else await self._peer.call(route, request, call, **path)


class LaxAgentConfig(SingleStepConfig):
    model_config = ConfigDict(extra="allow")


class LaxAgent(SingleStepAgent):
    config_type = LaxAgentConfig


BROKEN: dict[str, type[SingleStepAgent]] = {
    "a right answer is completed with its reward": Pessimist,
    "a wrong answer is completed with reward 0": Harsh,
    "an answer that a budget cut is truncated, with a verdict": Optimist,
    "a rollout keeps its row and its stamps": Rewriting,
    "every model call is a turn of the rollout": Turnless,
    "time is measured by stage": Timeless,
    "a failing model is infra, in stage model": Optimist,
    "a refused model call carries no reward": Optimist,
    "a failing seed is infra, in stage seed": Optimist,
    "a failing grader is the grader's, in stage verify": Optimist,
    "a leak is a leak": Optimist,
    "a wrong row is the row's, by its key": Optimist,
    "the agent's own time limit ends a rollout": Optimist,
    "cancelling ends a rollout at once and leaves no turns": StubbornAgent,
    "failing rollouts leave their siblings alone": SharedAgent,
    "nothing stays at the model server": HoardingAgent,
    "the secret is not in the rollout": Indiscreet,
    "a rollout is the same after it was stored and read": Tupled,
    "rollouts end the same directly, over ASGI and over HTTP": WiredAgent,
    "an unknown config key is refused by name": LaxAgent,
}
HELD_BY_THE_CLIENT = {"the caller's deadline ends a rollout"}
"""A peer ends an overdue call itself; only an agent that blocks its process could fail this."""


@pytest.mark.parametrize("agent", ["single_step", "tools"])
async def test_an_agent_without_sandboxes_passes(
    agent: str, run_all: Callable[[str], Awaitable[list[BehaviourResult]]]
) -> None:
    assert [result for result in await run_all(f"agent:{agent}") if result.outcome != "passed"] == []


@pytest.mark.parametrize("behaviour", BROKEN)
async def test_a_broken_agent_fails(behaviour: str, outcome_of: Callable[..., Awaitable[BehaviourResult]]) -> None:
    CALLERS.append(asyncio.current_task())
    row = {"responses_create_params": {"input": "one"}, "answer": "yes"}
    result = await outcome_of(behaviour, "agents", BROKEN[behaviour], REFERENCES, [row])
    assert result.outcome == "failed"
    assert result.detail


def test_every_behaviour_is_proven_to_fail() -> None:
    assert {behaviour.name for behaviour in suite_for("agent")} == {*BROKEN, *HELD_BY_THE_CLIENT}
