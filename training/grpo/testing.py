"""Runs by script: a rollout worker, a policy and engines without models, under a clock that takes no time.

Time    seconds of a virtual loop (`virtually`): a sleep ends as soon as nothing else can happen, so that a run of hours
        takes milliseconds and ends at the same second each time.
Weights of the policy are the number of its steps; an engine samples with the version that was sent to it, and a token
        that it samples while that changes has the version of its turn.
Law     what the script does not say goes well: all members get a reward, calls take the time they are given.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, TypeVarTuple, Unpack

from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult
from paddock.training.core.records import Batch, Group, Member
from paddock.training.core.testing import member, sample
from paddock.training.grpo.roles import GroupJob, TrainResult, ValidationResult
from paddock.types import Outcome

ResultT = TypeVar("ResultT")
Ts = TypeVarTuple("Ts")


class _VirtualSelector(selectors.DefaultSelector):
    """Waits only for events from outside: where a timer is next, its time comes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads = 0
        """How many threads work; virtual time stands still meanwhile."""

    def select(self, timeout: float | None = None) -> "list[tuple[selectors.SelectorKey, int]]":
        if self.threads and timeout != 0:
            timeout = None
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is only what was slept."""

    def __init__(self) -> None:
        self._selector = _VirtualSelector()
        super().__init__(self._selector)

    def time(self) -> float:
        return self._selector.now

    def run_in_executor(
        self, executor: Executor | None, func: "Callable[[Unpack[Ts]], ResultT]", *args: "Unpack[Ts]"
    ) -> "asyncio.Future[ResultT]":
        future = super().run_in_executor(executor, func, *args)
        self._selector.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: object) -> None:
        self._selector.threads -= 1

    async def shutdown_default_executor(self, *args: "float | None") -> None:
        """Waits for the executor's threads in real time: asyncio bounds that by a timer of the loop (Python 3.12)."""
        self._selector.threads += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._selector.threads -= 1


def virtually(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine to its end, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()


class EngineState:
    """The state of one scripted engine."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.n_starts = 0
        self.version: str | None = "default"
        self.is_well = True

    def restart(self) -> None:
        self.n_starts += 1
        self.version = "default"

    @property
    def replica(self) -> ReplicaInfo:
        return ReplicaInfo(self.name, f"http://{self.name}", self.n_starts)


class RoleEvent(NamedTuple):
    """One call of a role, and when it came."""

    at_s: float
    what: str
    of: int
    """A group, a step, a version."""


class ScriptedRun:
    """The state that the scripted roles of one run share, and a record of their calls."""

    def __init__(self, engines: int = 1) -> None:
        self.engines = [EngineState(f"engine-{nth}") for nth in range(engines)]
        self.events: list[RoleEvent] = []
        self.on_event: Callable[[str, int], None] = lambda what, of: None
        """Called at each event; may raise."""

    def note(self, what: str, of: int) -> None:
        self.events.append(RoleEvent(now(), what, of))
        self.on_event(what, of)

    def of(self, what: str) -> list[int]:
        return [event.of for event in self.events if event.what == what]

    def at(self, what: str, of: int) -> float:
        return next(event.at_s for event in self.events if event.what == what and event.of == of)


class ScriptedRollouts:
    """`roles.Rollouts`: groups whose turns take the seconds that a script says."""

    def __init__(
        self,
        world: ScriptedRun,
        *,
        seconds: Callable[[GroupJob], float] = lambda work: 1.0,
        turns: int = 2,
        size: int = 2,
        failed: Callable[[GroupJob, int], Outcome | None] = lambda work, nth: None,
        changed: Callable[[GroupJob, int, Member], Member] = lambda work, nth, member: member,
        agent: Callable[[GroupJob], str] = lambda work: "",
        validations: Mapping[int, float] | None = None,
        validate_s: float = 0.0,
    ) -> None:
        """`seconds`: of a whole group. `failed`: how a member ended that has no verdict; `changed`: what becomes of
        one that has. `agent`: who runs it. `validations`: accuracy after so many steps; others find no verdict."""
        self._agent = agent
        self._world = world
        self._seconds = seconds
        self._turns = turns
        self._size = size
        self._failed = failed
        self._changed = changed
        self._validations = validations or {}
        self._validate_s = validate_s
        self.restored: Path | None = None

    async def run_group(self, work: GroupJob, version: int) -> Group:
        self._world.note("begin", work.id)
        engine = self._world.engines[work.id % len(self._world.engines)]
        try:
            sampled = []
            for _ in range(self._turns):
                sampled.append(engine.version)
                await asyncio.sleep(self._seconds(work) / self._turns)
        except asyncio.CancelledError:
            self._world.note("cancel", work.id)
            raise
        self._world.note("end", work.id)
        members = tuple(self._member(work, nth, sampled) for nth in range(self._size))
        return Group(work.id, work.row, work.epoch, members, self._size, version)

    async def validate(self, step: int) -> ValidationResult:
        self._world.note("validate", step)
        await asyncio.sleep(self._validate_s)
        if step not in self._validations:
            return ValidationResult({}, 4, 0)
        return ValidationResult({"accuracy": self._validations[step]}, 4, 4)

    async def replicas(self) -> list[ReplicaInfo]:
        self._world.note("replicas", 0)
        return [engine.replica for engine in self._world.engines if engine.is_well]

    async def checkpoint(self, folder: Path) -> None:
        self._world.note("checkpoint", 0)
        (folder / "journals.json").write_text("{}")

    async def restore(self, folder: Path) -> None:
        self._world.note("restore", 0)
        assert (folder / "journals.json").read_text() == "{}"
        self.restored = folder

    async def stop(self) -> None:
        raise AssertionError("who made it stops it")

    def _member(self, work: GroupJob, nth: int, sampled: Sequence[str | None]) -> Member:
        outcome = self._failed(work, nth)
        if outcome is not None:
            return member(nth, None, outcome=outcome, agent=self._agent(work), total_s=self._seconds(work))
        spans = [(f"turn-{position}", 2 + position, 3 + position, version) for position, version in enumerate(sampled)]
        samples = [sample(spans, length=2 + len(spans))]
        ended = member(nth, float(nth % 2), samples=samples, agent=self._agent(work), total_s=self._seconds(work))
        return self._changed(work, nth, ended)


class ScriptedPolicy:
    """`roles.Policy`: trains by counting."""

    def __init__(self, world: ScriptedRun, *, train_s: float = 1.0, send_s: float = 0.0, save_s: float = 0.0) -> None:
        """`save_s`: how long a state is written, after it was taken."""
        self._world = world
        self._train_s = train_s
        self._send_s = send_s
        self._save_s = save_s
        self._writes: list[tuple[Path, int]] = []
        self.steps = 0
        self.batches: list[Batch] = []
        self.kept_caches: list[bool] = []
        self.refusing: dict[str, int] = {}
        """How many sends to come an engine won't take, by its name."""

    async def train(self, batch: Batch) -> TrainResult:
        self._world.note("train", batch.step)
        await asyncio.sleep(self._train_s)
        self.steps += 1
        self.batches.append(batch)
        self._world.note("trained", batch.step)
        return TrainResult({"loss": 1.0 / self.steps})

    async def send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        self._world.note("send", version)
        self.kept_caches.append(not clear_cache)
        await asyncio.sleep(self._send_s)
        names = {replica.name for replica in replicas}
        failed = {name: "connection reset" for name in names if self.refusing.get(name, 0)}
        self.refusing.update({name: self.refusing[name] - 1 for name in failed})
        for engine in self._world.engines:
            if engine.name in names - failed.keys():
                engine.version = str(version)
        self._world.note("sent", version)
        return SendResult(version, tuple(sorted(names - failed.keys())), 0.0, self._send_s, 0.0, failed)

    async def save(self, folder: Path, *, background: bool = False) -> None:
        self._world.note("save", self.steps)
        self._writes.append((folder, self.steps))
        if not background:
            await self.finish_save()

    async def finish_save(self) -> None:
        writes, self._writes = self._writes, []
        for folder, steps in writes:
            await asyncio.sleep(self._save_s)
            self._world.note("saved", steps)
            (folder / "steps").write_text(str(steps))

    async def load(self, folder: Path) -> None:
        self._world.note("load", 0)
        self.steps = int((folder / "steps").read_text())

    async def export(self, folder: Path) -> None:
        self._world.note("export", self.steps)
        (folder / "weights").write_text(str(self.steps))

    async def stop(self) -> None:
        raise AssertionError("who made it stops it")
