"""An agent whose rollouts are samples of inspect_ai tasks: dataset, solver and scorer are the task's, the model ours.

Run     inspect_ai's own `eval` of the row's sample, in a worker process. It asks a loopback endpoint with a key of its
        own, which adds the rollout's secret, so its model calls are recorded as any rollout's; those of a `judge` are
        recorded nowhere. `python` of the block names the environment that holds inspect_ai and this package.
Ends    a limit of inspect_ai's, or a last answer that was cut: `truncated`. An error in the task's scorer is the
        verifier's, and so is one that would ask the policy for its grade; a sample that is not there is the row's, any
        other error the infrastructure's.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import Any

from pydantic import Field

from paddock.agents.inspect_ai.jobs import SampleJob, SampleModel, SampleResult
from paddock.agents.inspect_ai.workers import SampleWorkers
from paddock.errors import ConfigError, InfraError, RequestError, RowError, VerifierError
from paddock.http import SEED, VERIFY, Call, ModelReply, Peer, VerifyRequest
from paddock.sandbox.tunnel import TunnelSettings
from paddock.server import AgentConfig, AgentServer, Reference
from paddock.server.rollout import RolloutRun
from paddock.server.seat_endpoints import SeatEndpoint, SeatModel, open_endpoint, open_unrecorded
from paddock.types import JsonObject, Rollout, Row
from paddock.types.responses import make_response

RESULT = "inspect_ai"
"""Key of the response."""
_PARAMETERS = {"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens"}


class InspectAgentConfig(AgentConfig):
    judge: Reference | None = None
    """The model server that scorers ask as the role `grader`, as those of inspect_ai do that grade by a model. Its
    calls are no part of the rollout. None: a scorer that would ask the policy instead is refused."""
    workers: int = Field(default=4, ge=1)
    """Samples that run at once: each takes a process with inspect_ai, of about 300 MiB."""
    message_limit: int | None = Field(default=None, ge=1)
    """Messages of a sample, in place of the task's own limit; None: the task's."""
    token_limit: int | None = Field(default=None, ge=1)
    """Tokens of a sample, as the model server counts them, in place of the task's own; None: the task's."""
    time_limit_s: int | None = Field(default=None, ge=1)
    """Seconds of a sample, in place of the task's own; None: the task's."""
    tunnel: TunnelSettings = TunnelSettings()
    """Bounds of the ways from inspect_ai to the models; `port` is any free one."""


class InspectAgent(AgentServer[InspectAgentConfig]):
    config_type = InspectAgentConfig
    OWN_PROCESS = True
    OWN_PROMPT = True

    def __init__(self, config: InspectAgentConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._workers = SampleWorkers(config.workers)

    async def start(self) -> None:
        for package in ("inspect_ai", "openai"):
            if find_spec(package) is None:
                raise ConfigError(
                    f"{self.name}: needs the package `{package}`: name an environment that has inspect_ai, openai and "
                    "paddock by `python` of its block",
                    kind="inspect_missing",
                )

    async def stop(self) -> None:
        await self._workers.stop()

    async def run(self, row: Row, call: Call) -> Rollout:
        run = RolloutRun(row, call, self.model, timeout_s=self.config.rollout_timeout_s)
        return await run.execute(self._run_stages)

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        raise RequestError("this agent works on rows: a request alone names no task", kind="rows_only")

    async def _run_stages(self, run: RolloutRun) -> None:
        with run.stage("seed"):
            session = await self.resources.call(SEED, run.row, run.call)
        with run.stage("model"):
            result = await self._sample(run, session.visible)
            if result.failed == "row":
                raise RowError(result.error, kind="inspect_sample")
            if result.failed == "task":
                raise InfraError(f"the task can't be read: {result.error}", kind="inspect_task", retryable=False)
            if result.failed == "sample":
                raise InfraError(f"the sample failed: {result.error}", kind="inspect_sample")
        with run.stage("verify"):
            if result.failed == "judge":
                raise VerifierError(result.error, kind="inspect_no_judge", retryable=False)
            if result.failed == "scorer":
                raise VerifierError(f"the task's scorer: {result.error}", kind="inspect_scorer")
            run.truncated = result.limit is not None or result.is_cut
            run.response = self._response(run.row, result)
            run.verdict = await self.resources.call(VERIFY, VerifyRequest(row=run.row, response=run.response), run.call)

    async def _sample(self, run: RolloutRun, visible: JsonObject) -> SampleResult:
        settings, model, judge = self.config.tunnel, self.config.model_server.name, self.config.judge
        async with AsyncExitStack() as stack:
            way = open_endpoint(SeatModel(self.model, model), run.call, run.secret, settings)
            policy = _endpoint(await stack.enter_async_context(way), model)
            grader = None
            if judge is not None:
                way = open_unrecorded(SeatModel(self.peers[judge.name], judge.name), run.call, settings)
                grader = _endpoint(await stack.enter_async_context(way), judge.name)
            job = self._job(run.row, visible, policy, grader)
            return await self._workers.run(job, run.call.remaining_s)

    def _job(self, row: Row, visible: JsonObject, policy: SampleModel, judge: SampleModel | None) -> SampleJob:
        params = row.responses_create_params
        generate: dict[str, Any] = {
            theirs: params[ours] for ours, theirs in _PARAMETERS.items() if params.get(ours) is not None
        }
        return SampleJob(
            task=visible["inspect_task"],
            args=visible["inspect_args"],
            sample_id=visible["sample_id"],
            policy=policy,
            judge=judge,
            generate=generate,
            message_limit=self.config.message_limit,
            token_limit=self.config.token_limit,
            time_limit_s=self.config.time_limit_s,
        )

    def _response(self, row: Row, result: SampleResult) -> JsonObject:
        response = make_response(
            result.items,
            row.responses_create_params,
            model=self.config.model_server.name,
            incomplete_reason="max_output_tokens" if result.is_cut else None,
        )
        return {**response, RESULT: result.model_dump(include={"scores", "explanations", "limit"})}


def _endpoint(seat: SeatEndpoint, model: str) -> SampleModel:
    return SampleModel(base_url=seat.tunnel.base_url, api_key=seat.key, model=model)
