"""A world and an agent whose rows say how their rollouts go: what is called, what comes back, what is judged.

The agent plays the row's turns through a real model server; odd members have other results and one turn less.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from paddock.errors import InfraError
from paddock.http import RESPONSES, SEED, VERIFY, Call, VerifyRequest
from paddock.server import AgentConfig, AgentServer, ResourcesServer, ServerConfig
from paddock.server.rollout import RolloutRun
from paddock.types import JsonObject, Rollout, Row, Verdict
from paddock.types.responses import calls, make_response, output_items


class SeenTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    turns: list[list[JsonObject]] = []
    results: list[str] = []
    """Of all calls, in order."""
    patch: str = ""
    reason: str = "tests_fail"
    tests: dict[str, dict[str, str]] = {}
    fails: bool = False


class ScriptedWorld(ResourcesServer[ServerConfig, SeenTask]):
    task_type = SeenTask

    async def verify(self, task: SeenTask, row: Row, response: JsonObject) -> Verdict:
        if task.fails:
            raise InfraError("the grader's <machine> died", kind="scripted", retryable=False)
        extras = {"tests": task.tests} if task.tests else {}
        resolved = task.reason == "resolved"
        metrics = {"resolved": float(resolved)}
        labels = {"repo": str(row.task["repo"])}
        detail = "as the row says"
        reward = float(resolved)
        return Verdict(reward=reward, reason=task.reason, detail=detail, metrics=metrics, labels=labels, extras=extras)

    def oracle(self, task: SeenTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        return task.turns


class Worker(AgentServer[AgentConfig]):
    config_type = AgentConfig

    async def run(self, row: Row, call: Call) -> Rollout:
        run = RolloutRun(row, call, self.model, timeout_s=self.config.rollout_timeout_s)
        return await run.execute(self._run_stages)

    async def _run_stages(self, run: RolloutRun) -> None:
        task = SeenTask.model_validate(run.row.task)
        odd = bool((run.row.stamp.member or 0) % 2)
        await self.resources.call(SEED, run.row, run.call)
        items: list[JsonObject] = []
        results = iter(task.results)
        for turn in range(len(task.turns) - odd):
            body = {"input": [{"role": "user", "content": f"turn {turn}"}, *items]}
            reply: Any = await self.model.call(RESPONSES, body, run.call, secret=run.secret)
            items += output_items(reply)
            for made in calls(reply):
                output = next(results) + (" (odd)" if odd else "")
                items.append({"type": "function_call_output", "call_id": made.call_id, "output": output})
        told = {
            "name": "toy",
            "variant": "odd" if odd else "even",
            "ended": "turn_limit" if odd else "finished",
            "turns": len(task.turns) - odd,
            "detail": None,
            "malformed": {"bad_json": 2} if odd else {},
        }
        response = make_response(items, {}, model="policy")
        run.truncated = odd
        run.response = {**response, "model_patch": task.patch, "harness": told}
        run.verdict = await self.resources.call(VERIFY, VerifyRequest(row=run.row, response=run.response), run.call)
