"""The run of a SWE rollout: seed, sandbox, harness, patch or state, verdict.

Row     whatever the environment reads; only its session decides what the harness sees.
Outcome `truncated` when a limit of the agent or its sandbox's own budget ended the harness: what is there is graded.
        A sandbox or model that fails is `infra`; a canary in what the agent saw is `leak`; no patch is a verdict.
Doubt   a sandbox, or a program in it, that the policy may have ended itself (`paddock.sandbox.ends`) is `infra` once.
        Where the row is stamped with such an end, another counts as the policy's: `completed`, what is there is graded.
State   a session that wants one (`paddock.types.EndState`) gets artifacts, made by the host as a patch is, or the
        sandbox itself, by a handle that only the verifier's request has; it is destroyed after the verdict.
Time    waiting for room on this machine, or on nodes, counts as part of the rollout, not of the agent's own time.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import Any

from paddock.agents.swe import canaries, oracle
from paddock.agents.swe.artifacts import Artifacts
from paddock.agents.swe.canaries import CanaryWatch
from paddock.agents.swe.config import SweAgentConfig
from paddock.agents.swe.gold import known_fix
from paddock.agents.swe.sandboxes import sandbox, time_limit
from paddock.agents.swe.state import RolloutState
from paddock.agents.swe.task_spec import TaskSpec, task_spec_of
from paddock.agents.swe.variants import Variant, Variants
from paddock.errors import BugError, InfraError, PaddockError, RequestError, boundary
from paddock.harness import Exit, Harness, RunLimits, SandboxWorkspace, make_harness
from paddock.harness.programs.installation import InstalledProgram
from paddock.harness.programs.store import ProgramStore
from paddock.http import SEED, VERIFY, Call, ModelReply, Peer, VerifyRequest
from paddock.sandbox import BudgetExceeded, Provider
from paddock.sandbox.admission import Admission, Capacity, shared_admission
from paddock.sandbox.blocklist import Blocklist
from paddock.sandbox.leases import Lease, shared_provider
from paddock.sandbox.loans import lend
from paddock.sandbox.readiness import Readiness
from paddock.sandbox.socket_listener import loopback_listener
from paddock.sandbox.tunnel import Tunnel
from paddock.server import AgentServer, ResourcesServer
from paddock.server.dialects.conversation import sampling_of
from paddock.server.rollout import RolloutRun
from paddock.server.rollout_model import RolloutModel, TunnelOptions
from paddock.server.step_rewards import StepRewardCollector
from paddock.server.upstream import PeerUpstream
from paddock.types import JsonObject, Rollout, RolloutSettings, Row
from paddock.types.step_rewards import combine_rewards

GRACE_S = 1.0
"""Seconds that a harness has to see for itself that its time is over."""


class SweAgent(AgentServer[SweAgentConfig]):
    config_type = SweAgentConfig
    OWN_PROMPT = True
    OPEN_FILES = 12
    """Of a sandbox, its tunnel and a command in it."""
    PROCESSES = 2
    """A sandbox's keeper and first process."""
    _provider: Lease[Provider]
    _admission: Lease[Admission]
    _canary_tokens: list[str]
    _readiness: Readiness

    def __init__(self, config: SweAgentConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._variants = Variants(config, name)
        self._blocklist = Blocklist(config.blocklist)
        self._programs: dict[str, InstalledProgram] = {}
        rewards = config.step_rewards
        self._step_rewards_slots = asyncio.Semaphore(rewards.max_concurrency if rewards else 1)
        self._leases: list[Lease[Provider] | Lease[Admission]] = []

    async def start(self) -> None:
        self._admission = await shared_admission(self.config.admission)
        self._leases.append(self._admission)
        if not self.config.sandbox.nodes:
            for variant in self._variants.all():
                self._admission.value.check(self._room(variant))
        self._programs = await asyncio.to_thread(self._installed_programs)
        self._canary_tokens = await asyncio.to_thread(canaries.plant, self.config.sandbox.home)
        self._provider = await shared_provider(self.config.sandbox)
        self._leases.append(self._provider)
        self._readiness = Readiness(self._provider.value)

    async def why_not_ready(self) -> str | None:
        return await self._readiness.why_not()

    async def stop(self) -> None:
        while self._leases:
            await self._leases.pop().release()

    async def run(self, row: Row, call: Call) -> Rollout:
        run = RolloutRun(row, call, self.model, timeout_s=self.config.rollout_timeout_s)
        artifacts = Artifacts(self.config.artifacts_dir, row, hidden=run.secret, canary=self._canary_tokens[0])
        state = RolloutState(artifacts.step)
        rollout = None
        try:
            rollout = await run.execute(lambda run: self._run_stages(run, state))
            return rollout
        finally:
            artifacts.close(state, rollout)

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        raise RequestError("a SWE agent works on rows: there is no repository in a request", kind="rows_only")

    def check_oracle(self, environment: ResourcesServer[Any, Any]) -> None:
        oracle.check(self._variants.all(), environment)

    async def oracle(self, environment: ResourcesServer[Any, Any], row: Row) -> Sequence[Sequence[JsonObject]]:
        return await oracle.oracle_turns(self._variants.of(row), environment, row)

    def _installed_programs(self) -> dict[str, InstalledProgram]:
        """Find the programs of its harnesses; ConfigError where one is not installed."""
        store = ProgramStore(self.config.sandbox.programs_home)
        wanted = (variant.program for variant in self._variants.all())
        return {program.folder: store.find(program) for program in wanted if program is not None}

    def _hold_room(self, variant: Variant) -> AbstractAsyncContextManager[None]:
        """Wait for room on this machine and hold it; nodes see to their own."""
        return nullcontext() if self.config.sandbox.nodes else self._admission.value.hold(self._room(variant))

    def _room(self, variant: Variant) -> Capacity:
        """Return what one rollout takes of the machine: its sandbox, and what runs beside it."""
        room = self.config.admission.demand(self.config.limits.memory_mib)
        beside = variant.program.memory_mib if variant.program else 0
        return room._replace(memory_mib=room.memory_mib + beside)

    async def _run_stages(self, run: RolloutRun, state: RolloutState) -> None:
        async with AsyncExitStack() as stack, AsyncExitStack() as sandbox_stack, time_limit(run.call):
            with run.stage("seed"):
                session = await self.resources.call(SEED, run.row, run.call)
                state.variant = self._variants.of(run.row)
                params = {**run.row.responses_create_params, **self.config.responses_create_params}
                state.task_spec = task_spec_of(session, state.variant, self.config.limits, params)
                watch = self._canaries(run, state.task_spec)
                state.step_rewards = await self._step_rewards(run, state.task_spec, stack)
            with run.stage("sandbox"):
                await sandbox_stack.enter_async_context(self._hold_room(state.variant))
                sandbox_id = await sandbox_stack.enter_async_context(
                    sandbox(self._provider.value, state.task_spec, run.row.stamp)
                )
            with run.stage("model"):
                state.exit = await self._run_harness(run, state, sandbox_id, watch)
            run.shift(state.counts.tool_s, "model", "tools")
            with run.stage("sandbox"):
                await self._take_changes(run, state, sandbox_id)
                loan = self._lend(state, sandbox_id, sandbox_stack)
                if loan is None:
                    await sandbox_stack.aclose()  # grading has no use for it
            run.truncated = state.exit.ended not in ("finished", "killed")
            run.response = state.response(run.row, self.config.model_server.name)
            with run.stage("verify"):
                run.verdict = await self.resources.call(
                    VERIFY, VerifyRequest(row=run.row, response=run.response, sandbox_loan=loan), run.call
                )
                if state.step_rewards is not None:
                    run.verdict = combine_rewards(run.verdict, await state.step_rewards.collect())
            run.shift(run.verdict.waited_s, "verify", "verify_wait")
            run.verdict = run.verdict.model_copy(update={"waited_s": 0.0})  # what is stored can be had again

    async def _step_rewards(
        self, run: RolloutRun, task_spec: TaskSpec, stack: AsyncExitStack
    ) -> StepRewardCollector | None:
        settings = self.config.step_rewards
        if settings is None:
            return None
        problem = str(task_spec.task.visible["problem_statement"])
        judge, slots = self.peers[settings.server.name], self._step_rewards_slots
        collector = StepRewardCollector(settings, judge, slots, run.row, run.call, problem=problem)
        return await stack.enter_async_context(collector)

    def _canaries(self, run: RolloutRun, task_spec: TaskSpec) -> CanaryWatch:
        of_row = canaries.of_row(run.row.task.get("canary"), task_spec.task.model_dump_json())
        return CanaryWatch([*self._canary_tokens, run.secret, *of_row])

    async def _run_harness(self, run: RolloutRun, state: RolloutState, sandbox_id: str, watch: CanaryWatch) -> Exit:
        """Run the harness in the sandbox; raises what its model or a canary failed with."""
        assert state.task_spec is not None
        assert state.variant is not None
        workspace = SandboxWorkspace(
            self._provider.value,
            sandbox_id,
            workdir=state.task_spec.sandbox.workdir,
            command_timeout_s=self.config.command_timeout_s,
            blocklist=self._blocklist,
            inspect_output=watch.look,
        )
        state.counts = workspace.counts
        variant = state.variant
        gold = await known_fix(run, self.model) if variant.needs == "gold" else None
        program = variant.program
        located = self._programs[program.folder] if program and program.where == "outside" else None
        harness = make_harness(variant.harness, variant.harness_config, gold=gold, program=located)
        state.files = getattr(harness, "artifacts", {})
        name = self.config.model_server.name
        try:
            async with RolloutModel(
                self.model,
                run.call,
                secret=run.secret,
                name=name,
                open_tunnel=lambda options: self._tunnel(run, sandbox_id, watch, options),
                settings=RolloutSettings(
                    sampling=sampling_of(state.task_spec.task.params),
                    max_turns=self.config.agent_max_turns,
                    max_tokens=self.config.agent_max_tokens,
                    ends_at=time.time() + self._time_s(state.task_spec),
                ),
            ) as state.model:
                exit_ = await self._run_within_limits(harness, run, state, workspace)
        except PaddockError as error:
            watch.check()  # what it says may only be how a leak was stopped
            if state.model is not None and state.model.tunnel and (failure := state.model.tunnel.failure) is not None:
                raise failure from error  # a program without its model fails for that
            raise
        watch.check()
        tunnel = state.model.tunnel
        if tunnel and tunnel.failure is not None and exit_.ended not in ("context_limit", "budget", "killed"):
            raise tunnel.failure
        return exit_

    def _lend(self, state: RolloutState, sandbox_id: str, stack: AsyncExitStack) -> str | None:
        """Lend the sandbox, for as long as the stack is open, to a verifier that wants it; returns the handle.

        One that has ended for its own budget, or in doubt, is nobody's to look into."""
        assert state.task_spec is not None
        assert state.exit is not None
        wanted = state.task_spec.end_state
        if wanted is None or not wanted.sandbox or state.exit.ended in ("budget", "killed"):
            return None
        return stack.enter_context(lend(self._provider.value, sandbox_id, state.task_spec.sandbox.limits))

    async def _take_changes(self, run: RolloutRun, state: RolloutState, sandbox_id: str) -> None:
        """Take what the environment wants of the sandbox: its artifacts, or the patch of what the harness changed."""
        assert state.task_spec is not None
        assert state.exit is not None
        try:
            await self._take(state, sandbox_id, ended=state.exit.ended == "killed")
        except InfraError as error:
            if not _is_second_doubt(run.row, error):
                raise
            state.exit = state.exit.model_copy(update={"ended": "killed", "detail": error.message})
            await self._take(state, sandbox_id, ended=True)

    async def _take(self, state: RolloutState, sandbox_id: str, *, ended: bool) -> None:
        assert state.task_spec is not None
        provider, wanted = self._provider.value, state.task_spec.end_state
        if wanted is None:
            state.patch = await provider.patch(sandbox_id, state.task_spec.sandbox.workdir, ended=ended)
        elif wanted.artifacts:
            state.archive = await provider.archive(
                sandbox_id, wanted.artifacts, exclude=wanted.exclude, max_bytes=wanted.max_bytes, ended=ended
            )

    def _time_s(self, task_spec: TaskSpec) -> float:
        """Return the seconds that a harness has: the task's own, or else the config's."""
        return task_spec.time_s or self.config.agent_timeout_s

    async def _run_within_limits(
        self, harness: Harness, run: RolloutRun, state: RolloutState, workspace: SandboxWorkspace
    ) -> Exit:
        assert state.task_spec is not None
        assert state.model is not None
        config, time_s = self.config, self._time_s(state.task_spec)
        limits = RunLimits(
            max_turns=config.agent_max_turns,
            max_tokens=config.agent_max_tokens,
            time_s=time_s,
            tool_s=config.command_timeout_s,
        )
        try:
            async with asyncio.timeout(time_s + GRACE_S):
                with boundary(BugError, f"harness {harness.__class__.__name__}", stage="model"):
                    try:
                        harness_run = harness.run(state.task_spec.task, workspace, state.model, limits, state.report)
                        return await state.model.watch(harness_run)
                    except BudgetExceeded as spent:
                        return Exit(ended="budget", turns=len(state.steps), detail=spent.message)
                    except InfraError as error:
                        if not _is_second_doubt(run.row, error):
                            raise
                        return Exit(ended="killed", turns=len(state.steps), detail=error.message)
        except TimeoutError:
            return Exit(ended="time_limit", turns=len(state.steps), detail=f"agent_timeout_s: {time_s:g}")

    async def _tunnel(self, run: RolloutRun, sandbox_id: str, watch: CanaryWatch, options: TunnelOptions) -> Tunnel:
        if options.api_key is None:
            listener = await self._provider.value.tunnel(sandbox_id, port=self.config.tunnel.port)
        else:
            listener = loopback_listener()
        upstream = PeerUpstream(self.model, run.call, secret=run.secret, model=self.config.model_server.name)
        return Tunnel(
            listener, upstream, self.config.tunnel, hidden=[run.secret], inspect=watch.look, **options._asdict()
        )


def _is_second_doubt(row: Row, error: InfraError) -> bool:
    """Say whether a failure is the second of its rollout whose cause is in doubt."""
    return error.doubtful and bool(row.stamp.doubts)
