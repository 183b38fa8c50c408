"""What an agent's side does in a hostile sandbox: starts the payload, and goes on with its own work there meanwhile.

Work    commands, files, a terminal, lists of changes, patches, snapshots, figures, a tunnel to a model that answers.
Ends    a sandbox that has ended, or had its time, is destroyed and another made.
Counts  what ended sandboxes, and how acts failed, by kind: that is the sandbox's business as long as it is a failure
        that the protocol knows (`crashes` counts others) and comes in time (`hung` counts acts that took `HUNG_S`).
"""

import asyncio
import contextlib
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.faults.hostile import attacks, floods
from benchmarks.faults.hostile.calls import BREACH
from paddock.sandbox import (
    BudgetExceeded,
    ExecRequest,
    SandboxError,
    SandboxGone,
    SandboxLimits,
    SandboxRequestError,
    SandboxSpec,
    ShellRequest,
)
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.tunnel import ModelRequest, Tunnel, TunnelSettings, UpstreamAnswer

LIMITS = SandboxLimits(memory_mib=128, pids=64, disk_mib=64, disk_files=10_000, shm_mib=16, open_files=512)
TUNNEL = TunnelSettings(max_held_bytes=8 << 20, request_timeout_s=10.0)
HUNG_S = 180.0
"""Longer than an act's own limits together: for a command to start, to run, to be killed."""
ACT_S = 10.0
"""Limit of a command that an agent runs."""
PAYLOAD_S = (5, 30)
LIVES_S = (15, 120)
"""How long a sandbox lives, unless it ends before."""
PAUSE_S = 0.2
PAYLOAD_FOLDER = "/tmp/payload"
FILES = {path.name: path.read_bytes() for path in sorted(Path(attacks.__file__).parent.glob("*.py"))}
OUTPUT_BYTES = 1 << 16
EXPECTED_ERRORS = (SandboxError, BudgetExceeded, SandboxRequestError, OSError)


class AgentActs(NamedTuple):
    """One act of an agent in a sandbox."""

    provider: LocalProvider
    sandbox: str
    chance: Random

    async def command(self) -> None:
        line = self.chance.choice(("ls -la /testbed; id", "git -C /testbed status", "sleep 0.1", "cat /proc/loadavg"))
        await self.sh(line)

    async def many(self) -> None:
        await asyncio.gather(*(self.sh("echo $$") for _ in range(4)))

    async def cancelled(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.chance.uniform(0, 1)):
                await self.sh("sleep 60")

    async def files(self) -> None:
        path = f"/tmp/{self.chance.randrange(100)}"
        await self.provider.write(self.sandbox, path, self.chance.randbytes(1000))
        await self.provider.read(self.sandbox, path, max_bytes=1 << 20)

    async def reading(self) -> None:
        for change in (await self.provider.changes(self.sandbox))[:20]:
            with contextlib.suppress(OSError):
                await self.provider.read(self.sandbox, change.path, max_bytes=1 << 16)

    async def terminal(self) -> None:
        shell = await self.provider.open_shell(self.sandbox, ShellRequest())
        await self.provider.shell_run(self.sandbox, shell, "cd /testbed && ls", timeout_s=ACT_S)
        await self.provider.shell_run(self.sandbox, shell, "yes", wait_s=0.2)
        await self.provider.shell_interrupt(self.sandbox, shell)
        await self.provider.close_shell(self.sandbox, shell)

    async def changes(self) -> None:
        await self.provider.changes(self.sandbox)

    async def patch(self) -> None:
        await self.provider.patch(self.sandbox, "/testbed")

    async def snapshot(self) -> None:
        name = f"payload/{uuid.uuid4().hex}"
        await self.provider.snapshot(self.sandbox, name)
        await asyncio.to_thread(self.provider.store.remove, name)

    async def figures(self) -> None:
        await self.provider.stats(self.sandbox)
        await self.provider.kills(self.sandbox)

    async def sh(self, line: str) -> None:
        request = ExecRequest(argv=["sh", "-c", line], timeout_s=ACT_S)
        await self.provider.exec(self.sandbox, request, request_id=uuid.uuid4().hex)


ACTS: dict[Callable[[AgentActs], Awaitable[None]], float] = {
    AgentActs.command: 4,
    AgentActs.many: 1,
    AgentActs.cancelled: 1,
    AgentActs.files: 2,
    AgentActs.reading: 0.5,
    AgentActs.terminal: 1,
    AgentActs.changes: 1,
    AgentActs.patch: 1,
    AgentActs.snapshot: 0.3,
    AgentActs.figures: 1,
}


class HostileSandboxes:
    """Runs one hostile sandbox after another, of one image."""

    def __init__(self, provider: LocalProvider, image: str, env: dict[str, str], chance: Random) -> None:
        """`env`: of the payload."""
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        """How often acts failed, by act and kind."""
        self.ends: Counter[str] = Counter()
        """How many sandboxes ended, by what ended them."""
        self.acts_s: list[float] = []
        self.breaches: list[str] = []
        self.crashes: list[str] = []
        self._provider = provider
        self._spec = SandboxSpec(image=image, env=env, limits=LIMITS, labels={"for": "payload"})
        self._chance = chance

    async def run(self, until: float) -> None:
        """Till that monotonic second."""
        while time.monotonic() < until:
            sandbox = await self._create()
            if sandbox is None:
                await asyncio.sleep(PAUSE_S)
                continue
            try:
                end = min(until, time.monotonic() + self._chance.uniform(*LIVES_S))
                self.ends[await self._occupy(sandbox, end)] += 1
            finally:
                await self._time("destroy", self._provider.destroy(sandbox))

    async def _create(self) -> str | None:
        created: list[str] = []

        async def make() -> None:
            created.append((await self._provider.create(self._spec, request_id=uuid.uuid4().hex)).sandbox_id)

        await self._time("create", make())
        self.counts["sandboxes"] += len(created)
        return created[0] if created else None

    async def _occupy(self, sandbox: str, until: float) -> str:
        """Work in a sandbox; returns what ended it."""
        async with _tunnel(self._provider, sandbox):
            payload = asyncio.create_task(self._payloads(sandbox))
            work = AgentActs(self._provider, sandbox, self._chance)
            try:
                while time.monotonic() < until:
                    act = self._chance.choices(list(ACTS), list(ACTS.values()))[0]
                    end = await self._time(act.__name__, act(work))
                    if isinstance(end, SandboxGone | BudgetExceeded):
                        return end.budget if isinstance(end, BudgetExceeded) else "gone"
                    if isinstance(end, SandboxError) and end.kind.startswith("host_"):
                        return end.kind
                    await asyncio.sleep(self._chance.uniform(0, PAUSE_S))
            finally:
                if self._chance.random() < 0.5:  # else it ends with its sandbox
                    payload.cancel()
                    await asyncio.wait([payload])
            return "time"

    async def _payloads(self, sandbox: str) -> None:
        """One after the other, until the sandbox has ended."""
        end: Exception | None = None
        while not isinstance(end, SandboxGone | BudgetExceeded):
            end = await self._time("payload", self._payload(sandbox), hung_s=HUNG_S + PAYLOAD_S[1])
            await asyncio.sleep(PAUSE_S)

    async def _payload(self, sandbox: str) -> None:
        for name, data in FILES.items():
            await self._provider.write(sandbox, f"{PAYLOAD_FOLDER}/benchmarks/faults/hostile/{name}", data)
        seed, seconds = self._chance.getrandbits(32), self._chance.randint(*PAYLOAD_S)
        words = ["python3", "-B", "-m", "benchmarks.faults.hostile", str(seed), str(seconds)]
        request = ExecRequest(
            argv=words,
            workdir=PAYLOAD_FOLDER,
            timeout_s=seconds + 2.0,
            head_bytes=OUTPUT_BYTES,
            tail_bytes=OUTPUT_BYTES,
        )
        self.counts["payloads"] += 1
        done = await self._provider.exec(sandbox, request, request_id=uuid.uuid4().hex)
        lines = bytes(done.stderr).decode(errors="replace").splitlines()
        self.breaches += [line for line in lines if line.startswith(BREACH)]
        self.counts["payloads_started"] += done.exit_code not in (126, 127)

    async def _time(self, name: str, act: Awaitable[None], *, hung_s: float = HUNG_S) -> Exception | None:
        """Await an act, count it, and return the error that it failed with."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(hung_s) as limit:
                await act
        except EXPECTED_ERRORS as error:
            if limit.expired():
                self.counts["hung"] += 1
            self.failures[f"{name}: {getattr(error, 'kind', type(error).__name__)}"] += 1
            return error
        except Exception as error:  # noqa: BLE001 - it is one of the figures
            self.crashes.append(f"{name}: {error!r}")
            return error
        finally:
            self.counts["acts"] += 1
            self.acts_s.append(time.monotonic() - started)
        return None


@asynccontextmanager
async def _model(_: ModelRequest) -> AsyncIterator[UpstreamAnswer]:
    async def body() -> AsyncIterator[bytes]:
        yield b"{}"

    yield UpstreamAnswer(200, {"content-type": "application/json"}, body())


@asynccontextmanager
async def _tunnel(provider: LocalProvider, sandbox: str) -> AsyncIterator[None]:
    """Where the sandbox can have one."""
    try:
        listener = await provider.tunnel(sandbox, port=TUNNEL.port)
    except EXPECTED_ERRORS:
        yield
        return
    async with Tunnel(listener, _model, TUNNEL):
        yield


def variables(port: int, name: str, folder: Path) -> dict[str, str]:
    """Variables for the payload: what of the host it must not reach."""
    return {
        floods.TUNNEL: str(TUNNEL.port),
        attacks.CANARY_PORT: str(port),
        attacks.CANARY_NAME: name,
        attacks.CANARY_FOLDER: str(folder),
    }
