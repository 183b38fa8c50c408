"""A rollout of an environment of verifiers: its harness, tools and rewards in verifiers' own code, the model ours.

Row     `environment`, the taskset's id, and `task_data`, the data of one task (`rows` writes them). Parameters of
        `responses_create_params` hold for every call of the model, over those of the environment's `sampling`.
Model   the environment asks a loopback endpoint with a key of its own, which adds the rollout's secret: so all calls of
        the model's seat are turns of the rollout. Those of other seats are asked without a record.
Answer  the items that the model sampled, and `verifiers`: the trace as verifiers records it, from which the resources
        server takes the reward.
Outcome `outcomes`. A process of an episode that is gone in its scoring, or whose time ended there, is a
        VerifierError, else an InfraError.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack, aclosing
from typing import Any

from paddock.agents.verifiers.config import VerifiersAgentConfig
from paddock.agents.verifiers.episodes import EpisodeHost
from paddock.agents.verifiers.outcomes import failure_of, is_truncated, output_of, trace_of
from paddock.config.files import find_folder
from paddock.errors import InfraError, PaddockError, RequestError, RowError, VerifierError
from paddock.http import SEED, VERIFY, Call, ModelReply, Peer, VerifyRequest
from paddock.server import AgentServer, ResourcesServer
from paddock.server.dialects.conversation import sampling_of
from paddock.server.rollout import RolloutRun, Stage
from paddock.server.seat_endpoints import SeatModel, open_endpoint, open_unrecorded
from paddock.types import JsonObject, Rollout, Row
from paddock.types.responses import make_response

STAGES: Mapping[str, Stage] = {
    "boot": "sandbox",
    "setup": "sandbox",
    "agent": "model",
    "finalize": "verify",
    "scoring": "verify",
}
"""verifiers' stages as ours."""


class VerifiersAgent(AgentServer[VerifiersAgentConfig]):
    config_type = VerifiersAgentConfig
    OWN_PROMPT = True
    OPEN_FILES = 8
    PROCESSES = 4
    """Two of `host`, the harness's program, and what that starts."""

    def __init__(self, config: VerifiersAgentConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._host: EpisodeHost | None = None

    async def start(self) -> None:
        settings = self.config.model_dump(mode="json", include={"environment", "env", "seat", "host_commands"})
        self._host = await EpisodeHost.start(settings, [find_folder(folder) for folder in self.config.path])

    async def stop(self) -> None:
        if self._host is not None:
            await self._host.stop()

    async def why_not_ready(self) -> str | None:
        return self._host.why_not_ready() if self._host else "it was not started"

    def check_row(self, row: Row, environment: ResourcesServer[Any, Any]) -> None:
        self._check(row)

    async def run(self, row: Row, call: Call) -> Rollout:
        run = RolloutRun(row, call, self.model, timeout_s=self.config.rollout_timeout_s)
        return await run.execute(self._run_stages)

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        raise RequestError("this agent works on rows: a request alone is no task", kind="rows_only")

    async def _run_stages(self, run: RolloutRun) -> None:
        self._check(run.row)
        with run.stage("seed"):
            await self.resources.call(SEED, run.row, run.call)
        record, overflowed = await self._episode(run)
        trace = trace_of(record)
        run.truncated = is_truncated(trace) or overflowed
        answer = make_response(
            output_of(trace),
            run.row.responses_create_params,
            model=self.config.model_server.name,
            incomplete_reason="max_output_tokens" if run.truncated else None,
        )
        run.response = {**answer, "verifiers": {**record, "traces": [trace]}}
        with run.stage("verify"):
            run.verdict = await self.resources.call(VERIFY, VerifyRequest(row=run.row, response=run.response), run.call)

    async def _episode(self, run: RolloutRun) -> tuple[JsonObject, bool]:
        """Run the episode to its end. Its record, and whether its last call was too long for the model; raises what its
        last call failed with, whatever the environment made of that."""
        assert self._host is not None
        config, name = self.config.tunnel, self.config.model_server.name
        job: JsonObject = {"data": run.row.task.get("task_data"), "model": name, "others": None}
        model = SeatModel(self.model, name, sampling_of(run.row.responses_create_params))
        async with AsyncExitStack() as stack:
            seat = await stack.enter_async_context(open_endpoint(model, run.call, run.secret, config))
            job["seat"] = {"url": seat.tunnel.base_url, "key": seat.key}
            tunnels = [seat.tunnel]
            if self._host.has_others:
                others = await stack.enter_async_context(open_unrecorded(model, run.call, config))
                job["others"] = {"url": others.tunnel.base_url, "key": others.key}
                tunnels.append(others.tunnel)
            record = await self._record(run, self._host, job)
            for tunnel in tunnels:
                if tunnel.failure is not None:
                    raise tunnel.failure
            return record, seat.tunnel.overflowed

    async def _record(self, run: RolloutRun, host: EpisodeHost, job: JsonObject) -> JsonObject:
        stage = "boot"
        record: JsonObject | None = None
        with ExitStack() as timer:
            timer.enter_context(run.stage(STAGES[stage]))
            try:
                async with asyncio.timeout(run.call.remaining_s) as clock, aclosing(host.run(job)) as messages:
                    async for message in messages:
                        if "record" in message:
                            record = message["record"]
                        elif "stage" in message:
                            if STAGES[message["stage"]] == "verify" != STAGES[stage]:
                                clock.reschedule(self._verify_ends(run))
                            stage = message["stage"]
                            timer.close()
                            timer.enter_context(run.stage(STAGES[stage]))
                        else:
                            raise failure_of(message, STAGES[stage])
            except TimeoutError as error:
                limit = "verify_timeout_s" if STAGES[stage] == "verify" else "rollout_timeout_s"
                raise _ended(stage, f"the time of the episode is over ({limit})", "timeout") from error
        if record is None:
            raise _ended(stage, "the process of the episode ended without an answer", "died")
        return record

    def _check(self, row: Row) -> None:
        named = row.task.get("environment")
        if named != self.config.environment:
            raise RowError(
                f"environment: this agent runs {self.config.environment!r}, the row is of {named!r}",
                kind="other_environment",
            )

    def _verify_ends(self, run: RolloutRun) -> float:
        """Second of the loop's clock at which scoring that begins now has to be over."""
        remaining_s = run.call.remaining_s
        limit_s = self.config.verify_timeout_s
        return asyncio.get_running_loop().time() + (limit_s if remaining_s is None else min(limit_s, remaining_s))


def _ended(stage: str, message: str, kind: str) -> PaddockError:
    """The failure of an episode that did not come to its end."""
    owner = VerifierError if STAGES[stage] == "verify" else InfraError
    return owner(f"{message}; it was at: {stage}", kind=kind, stage=STAGES[stage])
