"""Harbor and Terminal-Bench tasks: an instruction, an environment, and tests that look at what the agent left there.

Row     `task_folder`, below the server's `tasks_dir`; `task_sha256`, of its files; `solution`, where one is published,
        which no agent sees but `gold`. `python -m paddock.resources_servers.harbor.make_rows` writes them.
Seed    the image, the workdir, the instruction, and what is wanted at the end: artifacts, or the sandbox itself.
Verify  `fresh`: the artifacts in a new sandbox of the task's image, or its verifier's. `shared`: the agent's own
        sandbox, without its processes and what stood in /logs/verifier. Tests are put in after the agent has ended.
        A response without artifacts, such as a message by hand, is of an agent that did nothing.
Reward  what the tests left, not clipped; reasons are `REASONS`. A run without a usable reward is VerifierError.
Again   the verdict has the reward file, so it can be had again without the tests; a rollout's stored artifacts, given
        to `/verify`, have the tests run again.
"""

import asyncio
import posixpath
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paddock.errors import RequestError, RowError, VerifierError, describe
from paddock.http import Peer
from paddock.resources_servers.harbor.box import Box, VerifierFiles
from paddock.resources_servers.harbor.config import HarborServerConfig
from paddock.resources_servers.harbor.folders import find_folder, read_folder
from paddock.resources_servers.harbor.images import TaskImages
from paddock.resources_servers.harbor.parsers import solved
from paddock.resources_servers.harbor.rewards import RewardFile, read_rewards, single_reward
from paddock.resources_servers.harbor.task import PublishedTask
from paddock.resources_servers.harbor.task_toml import PUBLISHED_ARTIFACTS
from paddock.sandbox import BudgetExceeded, SandboxSpec
from paddock.sandbox.images.store import ImageRecord
from paddock.sandbox.leases import Lease, shared_local_provider
from paddock.sandbox.loans import SandboxLoan, share_used
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.readiness import Readiness
from paddock.sandbox.restore import restore
from paddock.server import ResourcesServer
from paddock.types import EndState, JsonObject, Row, Session, Verdict
from paddock.types.artifacts import artifacts_of

Reason = Literal["paid", "unpaid", "artifacts_too_large", "sandbox_ended", "no_results"]
REASONS: tuple[Reason, ...] = ("paid", "unpaid", "artifacts_too_large", "sandbox_ended", "no_results")
"""`paid`: a reward above 0; `sandbox_ended`: the agent used up its own sandbox's budget, or most of what the tests then
used up, or left its workdir full; `no_results`: a parser finds none in what the tests wrote, and some after the
published solution."""
MOST = 0.5
"""Share of a budget."""
LOG_CHARS = 1 << 16
ONE_USER = {"TAR_OPTIONS": "--no-same-owner"}
"""A sandbox has one user: GNU tar, as root, would fail to give files to those of an archive."""
ENDED = ("budget", "killed")
"""Ends of a harness after which its sandbox is gone, by the policy's own doing."""


class HarborRow(BaseModel):
    """What a row says of its task."""

    model_config = ConfigDict(frozen=True, extra="allow")

    task_folder: str = Field(min_length=1)
    task_sha256: str | None = None
    solution: JsonObject | None = None


class HarborTask(BaseModel):
    """A row with the task that its folder holds."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    row: HarborRow
    published: PublishedTask


class HarborServices(NamedTuple):
    """What a server has between its start and its stop."""

    lease: Lease[LocalProvider]
    readiness: Readiness
    images: TaskImages
    turns: asyncio.Semaphore


class HarborServer(ResourcesServer[HarborServerConfig, HarborTask]):
    OWN_PROMPT = True
    ROWS_HAVE_FIX = True
    config_type = HarborServerConfig
    task_type = HarborTask
    _services: HarborServices | None = None

    def __init__(self, config: HarborServerConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._gradable: set[tuple[str, str | None]] = set()
        """Tasks whose tests have results after the published solution."""

    async def start(self) -> None:
        lease = await shared_local_provider(self.config.sandbox)
        self._services = HarborServices(
            lease=lease,
            readiness=Readiness(lease.value),
            images=TaskImages(lease.value.store, self.config.images),
            turns=asyncio.Semaphore(self.config.max_concurrent_gradings),
        )

    async def stop(self) -> None:
        services, self._services = self._services, None
        if services is not None:
            await services.lease.release()

    async def why_not_ready(self) -> str | None:
        return await self._started().readiness.why_not()

    def read_task(self, row: Row) -> HarborTask:
        given = _read_row(row)
        published = read_folder(find_folder(given.task_folder, self.config.tasks_dir, given.task_sha256))
        if published.network == "public" and self.config.public_network == "refuse":
            raise RowError(
                f"{given.task_folder}: wants the internet, which no sandbox here has; `public_network: run_without` "
                "runs it without",
                kind="harbor_refused",
                stage="seed",
            )
        return HarborTask.model_construct(row=given, published=published)

    async def seed_session(self, task: HarborTask, row: Row) -> Session:
        published = task.published
        image = (await self._started().images.ensure(published.image)).record
        workdir = published.workdir or image.workdir
        return Session(
            image=image.name,
            workdir=workdir,
            visible={"instance_id": row.name or published.name, "problem_statement": published.instruction},
            env={**ONE_USER, **published.env},
            memory_mib=published.memory_mib,
            agent_timeout_s=published.agent_timeout_s,
            end_state=self._end_state(published, workdir),
        )

    async def verify(self, task: HarborTask, row: Row, response: JsonObject) -> Verdict:
        if not self._is_fresh(task.published):
            if _ended(response) in ENDED:
                return _nothing("sandbox_ended", "the agent used up its sandbox's budget")
            raise VerifierError("the tests run in the agent's sandbox, and there is none", kind="no_sandbox")
        try:
            artifacts = artifacts_of(response)
        except ValueError as error:
            raise RequestError(f"artifacts: {error}", kind="artifacts_invalid") from error
        if artifacts is not None and artifacts.too_large:
            return _nothing("artifacts_too_large", f"more than {self.config.artifacts_max_mib} MiB")
        services = self._started()
        image = (await services.images.ensure(task.published.verifier_image or task.published.image)).record
        queued_at = time.monotonic()
        archive = artifacts.archive if artifacts else b""
        async with services.turns:
            waited_s = time.monotonic() - queued_at
            files = await self._run_fresh(
                task.published, image, lambda box: restore(box.provider, box.sandbox_id, archive)
            )
            verdict = await self._judged(task, files)
        return verdict.model_copy(update={"waited_s": waited_s})

    async def verify_sandbox(self, task: HarborTask, row: Row, response: JsonObject, sandbox: SandboxLoan) -> Verdict:
        queued_at = time.monotonic()
        services = self._started()
        image = await services.images.ensure(task.published.image)
        async with services.turns:
            waited_s = time.monotonic() - queued_at
            verdict = await self._run_shared(task, task.published.workdir or image.record.workdir, sandbox)
        return verdict.model_copy(update={"waited_s": waited_s})

    async def reverify(self, task: HarborTask, row: Row, response: JsonObject, verdict: Verdict) -> Verdict:
        stored = verdict.extras.get("verifier")
        if not isinstance(stored, dict):
            return verdict
        file = stored.get("reward_file")
        reward_file = RewardFile(str(file["name"]), str(file["text"])) if isinstance(file, dict) else None
        return self._verdict(task.published, VerifierFiles(reward_file, str(stored.get("output", ""))))

    def _started(self) -> HarborServices:
        assert self._services is not None  # a server that has not started serves nothing
        return self._services

    def _is_fresh(self, task: PublishedTask) -> bool:
        return task.separate or self.config.isolation == "fresh"

    def _end_state(self, task: PublishedTask, workdir: str) -> EndState:
        if not self._is_fresh(task):
            return EndState(sandbox=True)
        paths = task.artifacts or ([] if task.separate else self.config.default_artifacts)
        absolute = [_join(workdir, path) for path in paths]
        for path in absolute:
            if path == "/" or any(f"{place}/".startswith(f"{path}/") for place in ("/tests", "/logs/verifier")):
                raise RowError(
                    f"{task.name}: artifacts: {path} holds what the verifier alone may have; declare others, or "
                    "`isolation: shared`",
                    kind="harbor_refused",
                    stage="seed",
                )
        max_bytes = self.config.artifacts_max_mib << 20
        return EndState(artifacts=[*absolute, PUBLISHED_ARTIFACTS], exclude=task.exclude, max_bytes=max_bytes)

    async def _run_shared(self, task: HarborTask, workdir: str, loan: SandboxLoan) -> Verdict:
        """Run the tests where the agent ran. A budget that ends is the agent's doing where it had used most of it."""
        box, before = Box(loan.provider, loan.sandbox_id), None
        try:
            if self.config.leftover_processes == "kill":
                await box.kill_others()
            if not await box.has_room(workdir):
                return _nothing("sandbox_ended", f"the agent left no room in {workdir}")
            before = await loan.provider.stats(loan.sandbox_id)
            files = await box.run_tests(task.published, workdir)
        except BudgetExceeded as error:
            if before is None or share_used(error.budget, before, loan.limits) >= MOST:
                return _nothing("sandbox_ended", f"the agent left too little of its sandbox's budget: {error.message}")
            raise VerifierError(f"the tests' sandbox: {error.message}", kind="tests_budget") from error
        return await self._judged(task, files)

    async def _run_fresh(
        self, task: PublishedTask, image: ImageRecord, prepare: Callable[[Box], Awaitable[None]]
    ) -> VerifierFiles:
        provider, limits = self._started().lease.value, self.config.limits
        memory_mib = task.memory_mib or limits.memory_mib
        spec = SandboxSpec(
            image=image.name,
            workdir=task.workdir or image.workdir,
            env={**ONE_USER, **task.env},
            limits=limits.model_copy(update={"memory_mib": memory_mib}),
            purpose="grading",
            labels={"instance": task.name},
        )
        handle = await provider.create(spec, request_id=uuid.uuid4().hex)
        box = Box(provider, handle.sandbox_id)
        try:
            await prepare(box)
            return await box.run_tests(task, spec.workdir)
        except BudgetExceeded as error:
            raise VerifierError(f"the tests' sandbox: {error.message}", kind="tests_budget") from error
        finally:
            await asyncio.shield(provider.destroy(handle.sandbox_id))

    async def _judged(self, task: HarborTask, files: VerifierFiles) -> Verdict:
        """Make a verdict of what the tests left. Where a parser finds no result in it, as of code that does not
        compile, that is 0 if it finds some after the published solution: then the tests can be run here."""
        try:
            return self._verdict(task.published, files)
        except VerifierError as error:
            if error.kind != "no_results" or not await self._is_gradable(task):
                raise
            return _nothing("no_results", error.message)

    async def _is_gradable(self, task: HarborTask) -> bool:
        """Whether the tests have results after the published solution; found out once where they have."""
        published, key = task.published, (task.row.task_folder, task.row.task_sha256)
        solution = published.solution
        if key in self._gradable or solution is None or published.parser is None:
            return key in self._gradable
        image = (await self._started().images.ensure(published.image)).record
        files = await self._run_fresh(published, image, lambda box: box.solve(published, solution))
        try:
            solved(published.parser, files.output)
        except ValueError:
            return False
        self._gradable.add(key)
        return True

    def _verdict(self, task: PublishedTask, files: VerifierFiles) -> Verdict:
        """Make a verdict of what the tests left; VerifierError where that says nothing."""
        stored: JsonObject = {"output": ""}
        if task.parser is None:
            rewards = read_rewards(files.reward_file)
            reward = single_reward(rewards, self.config.reward_key)
            stored["reward_file"] = files.reward_file._asdict() if files.reward_file else None
        else:
            try:
                tests = solved(task.parser, files.output)
            except ValueError as error:
                raise VerifierError(f"{task.parser}: {error}: {files.output[-500:]}", kind="no_results") from error
            rewards = {name: float(passed) for name, passed in tests.items()}
            reward = float(all(tests.values()))
            stored["output"] = files.output
        log = {"log": files.output[-LOG_CHARS:]} if self.config.keep_log else {}
        metrics = {f"reward/{name}": value for name, value in rewards.items()} if task.parser is None else {}
        return Verdict(
            reward=reward,
            reason="paid" if reward > 0 else "unpaid",
            metrics=metrics,
            extras={"rewards": rewards, "verifier": stored, **log},
        )


def _read_row(row: Row) -> HarborRow:
    try:
        return HarborRow.model_validate(row.task)
    except ValidationError as error:
        raise RowError(describe(error), kind="task_invalid") from error


def _nothing(reason: Reason, detail: str) -> Verdict:
    return Verdict(reward=0.0, reason=reason, detail=detail)


def _ended(response: JsonObject) -> str | None:
    harness = response.get("harness")
    return harness.get("ended") if isinstance(harness, dict) else None


def _join(workdir: str, path: str) -> str:
    return "/" + posixpath.normpath(posixpath.join(workdir, path)).strip("/")
