"""Every runtime of this machine does what sandboxes do; a provider that breaks a law is caught by its behaviour."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.conformance.often import pairs

from paddock.cli import main
from paddock.conformance import Behaviour, run_behaviour, suite_for
from paddock.conformance.sandboxes import SUITE, SandboxTarget, find_sandbox
from paddock.sandbox import (
    Archive,
    BudgetExceeded,
    ExecRequest,
    ExecResult,
    Output,
    Patch,
    SandboxError,
    SandboxGone,
    SandboxLimits,
    SandboxSettings,
    SandboxSpec,
    ShellResult,
    Stats,
    TunnelConnection,
    TunnelListener,
    open_provider,
)
from paddock.sandbox.runtimes import RUNTIMES

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Where the payload's user can pass, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-conformance-", dir="/var/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def subject_of(home: Path) -> Callable[[str], SandboxTarget]:
    def find(runtime: str) -> SandboxTarget:
        missing = next(make().missing() for make in RUNTIMES if make.name == runtime)
        if missing:
            pytest.skip(f"{runtime}: {missing}")
        return find_sandbox(f"sandbox:{runtime}", settings=SandboxSettings(home=home))

    return find


@pytest.mark.parametrize(("runtime", "behaviour"), list(pairs()))
async def test_a_runtime_does_what_sandboxes_do(
    runtime: str,
    behaviour: Behaviour[SandboxTarget],
    subject_of: Callable[[str], SandboxTarget],
    request: pytest.FixtureRequest,
) -> None:
    if runtime == "docker":
        request.getfixturevalue("docker_daemon")
    result = await run_behaviour(behaviour, subject_of(runtime))
    if result.outcome == "skipped":
        pytest.skip(result.detail)
    assert result.outcome == "passed", result.detail


def test_there_are_many_behaviours_under_different_names() -> None:
    names = [behaviour.name for behaviour in suite_for("sandbox")]
    assert len(set(names)) == len(names) >= 80


@pytest.mark.slow
def test_the_command_checks_a_runtime_and_refuses_what_is_none(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(home))
    if not shutil.which("bwrap"):
        pytest.skip("no bwrap")
    assert main(["check", "sandbox:bubblewrap", "--only", "workdir"]) == 0
    assert "sandbox:bubblewrap: 1 behaviours, 0 broken" in capsys.readouterr().out
    assert main(["check", "sandbox:remote", "--only", "workdir"]) == 0
    assert "sandbox:remote: 1 behaviours, 0 broken" in capsys.readouterr().out
    assert main(["check", "sandbox:bublewrap"]) == 2
    assert "nearest: `bubblewrap`" in capsys.readouterr().err
    assert main(["check", "sandbox:bubblewrap", "--image", "no/such"]) != 0
    assert main(["check", "resources_server:pivot", "--image", "x"]) == 2


class Wrapped:
    """A real provider; what follows break one law each."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class AnyFailureIsOne(Wrapped):
    async def exec(self, *words: Any, **named: Any) -> ExecResult:
        result: ExecResult = await self.inner.exec(*words, **named)
        return result.model_copy(update={"exit_code": min(result.exit_code, 1)})


class KillsAreSilent(Wrapped):
    async def exec(self, *words: Any, **named: Any) -> ExecResult:
        result: ExecResult = await self.inner.exec(*words, **named)
        return result.model_copy(update={"killed_by": None})


class LetsGoAtTheLimit(Wrapped):
    """It answers in time, and kills nothing."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.left: list[asyncio.Future[Any]] = []

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        limitless = request.model_copy(update={"timeout_s": None})
        running = asyncio.ensure_future(self.inner.exec(sandbox_id, limitless, request_id=request_id))
        done, _ = await asyncio.wait([running], timeout=request.timeout_s)
        if done:
            result: ExecResult = await running
            return result
        self.left.append(running)
        return ExecResult(exit_code=137, stdout=Output(), killed_by="timeout", duration_s=request.timeout_s or 0)

    async def close(self) -> None:
        await self.inner.close()
        await asyncio.gather(*self.left, return_exceptions=True)


class IgnoresCancelling(LetsGoAtTheLimit):
    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        running = asyncio.ensure_future(self.inner.exec(sandbox_id, request, request_id=request_id))
        self.left.append(running)
        return await asyncio.shield(running)


class TextOnly(Wrapped):
    async def exec(self, *words: Any, **named: Any) -> ExecResult:
        result: ExecResult = await self.inner.exec(*words, **named)
        text = bytes(result.stdout).decode(errors="replace").encode()
        return result.model_copy(update={"stdout": Output(head=text)})


class ForgetsRequests(Wrapped):
    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        result: ExecResult = await self.inner.exec(sandbox_id, request, request_id=os.urandom(8).hex())
        return result


class Wishes(Wrapped):
    """Changes what is asked for."""

    changes: dict[str, Any] = {}

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        changed = request.model_copy(update=self.changes)
        result: ExecResult = await self.inner.exec(sandbox_id, changed, request_id=request_id)
        return result


class NoInput(Wishes):
    changes = {"stdin": b""}


class NoWorkdir(Wishes):
    changes = {"workdir": "/"}


class KeepsAll(Wishes):
    changes = {"head_bytes": 1 << 30}


class NeverMerges(Wishes):
    changes = {"merge_stderr": False}


class HostEnvironment(Wrapped):
    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        env = {**os.environ, **request.env}
        changed = request.model_copy(update={"env": env})
        result: ExecResult = await self.inner.exec(sandbox_id, changed, request_id=request_id)
        return result


class TellsOfTheDead(Wrapped):
    """What `told` has for a method, in place of SandboxGone."""

    told: ClassVar[dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        inner = super().__getattr__(name)
        if name not in self.told:
            return inner

        async def tell(*words: Any, **named: Any) -> Any:
            try:
                return await inner(*words, **named)
            except SandboxGone:
                return self.told[name]

        return tell


class DeathIsAnExitCode(TellsOfTheDead):
    told: ClassVar[dict[str, Any]] = {"exec": ExecResult(exit_code=137, stdout=Output(), duration_s=0)}


class DeathIsAShellsEnd(TellsOfTheDead):
    told: ClassVar[dict[str, Any]] = {
        "shell_run": ShellResult(exit_code=137, workdir="/", output=Output(), closed=True)
    }


class TheDeadChangedNothing(TellsOfTheDead):
    told: ClassVar[dict[str, Any]] = {"changes": []}


class TheDeadHaveNoPatch(TellsOfTheDead):
    told: ClassVar[dict[str, Any]] = {"patch": Patch(data=b"")}


class TheDeadAreKept(TellsOfTheDead):
    told: ClassVar[dict[str, Any]] = {"snapshot": "kept"}


class BudgetsAreTheMachines(Wrapped):
    async def exec(self, *words: Any, **named: Any) -> ExecResult:
        try:
            result: ExecResult = await self.inner.exec(*words, **named)
        except BudgetExceeded as error:
            raise SandboxError(error.message, kind="lost") from error
        return result


class NoLimits(Wrapped):
    async def create(self, spec: SandboxSpec, *, request_id: str) -> Any:
        limits = SandboxLimits(memory_mib=None, pids=None, disk_mib=None, shm_mib=2000, cpu_s=None)
        return await self.inner.create(spec.model_copy(update={"limits": limits}), request_id=request_id)


class AnyImage(Wrapped):
    async def create(self, spec: SandboxSpec, *, request_id: str) -> Any:
        try:
            return await self.inner.create(spec, request_id=request_id)
        except Exception as error:
            raise SandboxError(str(error), kind="start_failed") from error


class OneForAll(Wrapped):
    """All get the same sandbox."""

    async def create(self, spec: SandboxSpec, *, request_id: str) -> Any:
        return await self.inner.create(spec.model_copy(update={"labels": {}}), request_id="one")


class DestroysLater(Wrapped):
    async def destroy(self, sandbox_id: str) -> None:
        """Not now."""


class HostName(Wrapped):
    async def create(self, spec: SandboxSpec, *, request_id: str) -> Any:
        changed = spec.model_copy(update={"hostname": f"on-{os.uname().nodename}"})
        return await self.inner.create(changed, request_id=request_id)


class ShellsForget(Wrapped):
    async def shell_run(self, sandbox_id: str, shell_id: str, line: str, **limits: Any) -> ShellResult:
        result: ShellResult = await self.inner.shell_run(sandbox_id, shell_id, f"({line}\n)", **limits)
        return result


class ShellsDieWithTheirLines(Wrapped):
    async def shell_run(self, sandbox_id: str, shell_id: str, line: str, **limits: Any) -> ShellResult:
        result: ShellResult = await self.inner.shell_run(sandbox_id, shell_id, line, **limits)
        if result.killed_by:
            await self.inner.shell_run(sandbox_id, shell_id, "exit")
        return result


class NeverInterrupts(Wrapped):
    async def shell_interrupt(self, sandbox_id: str, shell_id: str) -> ShellResult:
        result: ShellResult = await self.inner.shell_poll(sandbox_id, shell_id)
        return result


class TypesNothing(Wrapped):
    async def shell_type(self, sandbox_id: str, shell_id: str, data: bytes) -> None:
        """Lost."""


class ClosesNoShell(Wrapped):
    async def close_shell(self, sandbox_id: str, shell_id: str) -> None:
        """It goes on."""


class MissingIsEmpty(Wrapped):
    async def read(self, sandbox_id: str, path: str, *, max_bytes: int | None = None) -> bytes:
        try:
            data: bytes = await self.inner.read(sandbox_id, path, max_bytes=max_bytes)
        except OSError:
            return b""
        return data


class IgnoresModes(Wrapped):
    async def write(self, sandbox_id: str, path: str, data: bytes, *, mode: int | None = None) -> None:
        await self.inner.write(sandbox_id, path, data)


class NothingChanged(Wrapped):
    async def changes(self, sandbox_id: str, under: str = "/") -> list[Any]:
        return []

    async def patch(self, sandbox_id: str, root: str, **named: Any) -> Patch:
        patch: Patch = await self.inner.patch(sandbox_id, root, **named)
        return patch.model_copy(update={"data": b""})


class ArchivesNothing(Wrapped):
    async def archive(self, sandbox_id: str, paths: list[str], **named: Any) -> Archive:
        made: Archive = await self.inner.archive(sandbox_id, [], **named)
        return made


class SnapshotsAreTheImage(Wrapped):
    async def snapshot(self, sandbox_id: str, name: str) -> str:
        handle = next(one for one in self.inner.live() if one.sandbox_id == sandbox_id)
        image: str = handle.spec.image
        return image


class TellsNothing(Wrapped):
    async def kills(self, sandbox_id: str) -> list[Any]:
        return []

    async def stats(self, sandbox_id: str) -> Stats:
        return Stats(memory_mib=1, peak_memory_mib=1, disk_mib=1, pids=1, cpu_s=1)


class StaysOpen:
    def __init__(self, listener: TunnelListener) -> None:
        self.listener = listener
        self.port = listener.port

    def connections(self) -> AsyncIterator[TunnelConnection]:
        return self.listener.connections()

    async def close(self) -> None:
        """Not yet."""


class TunnelsStayOpen(Wrapped):
    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.listeners: list[TunnelListener] = []

    async def tunnel(self, sandbox_id: str, *, port: int) -> StaysOpen:
        self.listeners.append(await self.inner.tunnel(sandbox_id, port=port))
        return StaysOpen(self.listeners[-1])

    async def close(self) -> None:
        for listener in self.listeners:
            await listener.close()
        await self.inner.close()


class OnTheHost(Wrapped):
    """Runs commands beside the sandbox instead of in it; only what does no harm is tried."""

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        process = await asyncio.create_subprocess_exec(
            *request.argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            out, err = await process.communicate(request.stdin)
        except asyncio.CancelledError:
            process.kill()
            await process.communicate()
            raise
        code = process.returncode or 0
        return ExecResult(exit_code=code & 0xFF, stdout=Output(head=out), stderr=Output(head=err), duration_s=0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (AnyFailureIsOne, "a command's exit code is told exactly"),
        (AnyFailureIsOne, "a signal's exit code is 128 and its number"),
        (AnyFailureIsOne, "what can't be started is 126 or 127, and says why"),
        (KillsAreSilent, "a time limit kills a command, and says so"),
        (KillsAreSilent, "a memory hog is killed and told, its sandbox lives"),
        (LetsGoAtTheLimit, "a time limit kills a command, and says so"),
        (LetsGoAtTheLimit, "a time limit kills what ignores signals"),
        (LetsGoAtTheLimit, "what a command wrote before its time limit is kept"),
        (IgnoresCancelling, "a cancelled command is killed with all it started"),
        (TextOnly, "any bytes come out as they were written"),
        (ForgetsRequests, "a repeated request is served once"),
        (NoInput, "stdin arrives whole, and ends"),
        (NoWorkdir, "commands start in their workdir"),
        (KeepsAll, "50 MB of output is capped to head and tail as it comes"),
        (KeepsAll, "output is cut at the byte that was asked for"),
        (NeverMerges, "merged streams keep their order"),
        (HostEnvironment, "nothing of the host's environment is inside"),
        (HostEnvironment, "the environment is the defaults and what was asked for"),
        (DeathIsAnExitCode, "a sandbox that dies is gone, which is no exit code"),
        (DeathIsAnExitCode, "destroying leaves nothing, and is repeated without harm"),
        (DeathIsAnExitCode, "one that is killed piece by piece is gone, too"),
        (DeathIsAShellsEnd, "a sandbox that dies is gone, which is no exit code"),
        (DeathIsAShellsEnd, "one that is killed piece by piece is gone, too"),
        (TheDeadChangedNothing, "nothing is told of the files of one that died"),
        (TheDeadAreKept, "nothing is told of the files of one that died"),
        (TheDeadHaveNoPatch, "nothing is told of the files of one that died"),
        (BudgetsAreTheMachines, "who writes more than the disk limit has used up the budget"),
        (NoLimits, "a memory hog is killed and told, its sandbox lives"),
        (NoLimits, "/dev/shm has the size asked for, and counts as memory"),
        (NoLimits, "descriptors are limited, core files are not written"),
        (AnyImage, "an unknown image is the row's mistake"),
        (OneForAll, "two sandboxes see nothing of each other"),
        (OneForAll, "each sandbox has namespaces of its own"),
        (OneForAll, "12 sandboxes live at once"),
        (DestroysLater, "destroying leaves nothing, and is repeated without harm"),
        (HostName, "paths and names of the host are not shown"),
        (ShellsForget, "a shell keeps its folder, variables and functions"),
        (ShellsForget, "a line's exit code and folder are told exactly"),
        (ShellsDieWithTheirLines, "a time limit kills a line's whole tree, and leaves the shell alive"),
        (NeverInterrupts, "^C ends a line, and leaves the shell alive"),
        (TypesNothing, "what is typed is read by the line that runs"),
        (ClosesNoShell, "closing a shell kills all that runs in it"),
        (MissingIsEmpty, "wrong paths are told as what they are, at once"),
        (IgnoresModes, "files get the mode asked for, and keep theirs"),
        (NothingChanged, "changes against the image are told"),
        (ArchivesNothing, "an archive holds what is there, and is put elsewhere"),
        (NothingChanged, "a patch of a repository applies to its base"),
        (SnapshotsAreTheImage, "snapshots fork, and forks are independent"),
        (TellsNothing, "what a sandbox uses is told"),
        (TellsNothing, "/dev/shm has the size asked for, and counts as memory"),
        (TunnelsStayOpen, "a closed tunnel is closed, and its port is free"),
        (OnTheHost, "no process inside is root of the host"),
        (OnTheHost, "each sandbox has namespaces of its own"),
        (OnTheHost, "processes of the host are neither seen nor reached"),
        (OnTheHost, "listeners of the host are out of reach"),
        (OnTheHost, "files of the host can't be read"),
        (OnTheHost, "paths and names of the host are not shown"),
        (OnTheHost, "nothing of the host's environment is inside"),
        (OnTheHost, "nothing covered in /proc tells of the machine"),
        (OnTheHost, "uptime and clocks are the sandbox's own"),
        (OnTheHost, "no namespace can be made inside"),
        (OnTheHost, "commands and shells are under a filter of system calls"),
        (OnTheHost, "system calls that sandboxes would share are not there"),
        (OnTheHost, "sockets are of the families that stay inside"),
        (OnTheHost, "keys of the kernel pass nothing from one sandbox to another"),
    ],
)
async def test_a_broken_provider_is_caught(
    broken: type[Wrapped], name: str, subject_of: Callable[[str], SandboxTarget]
) -> None:
    async def opened(settings: SandboxSettings) -> Any:
        return broken(await open_provider(settings))

    target = subject_of("bubblewrap")._replace(open=opened)
    behaviour = next(one for one in SUITE if one.name == name)
    result = await run_behaviour(behaviour, target)
    assert result.outcome == "failed", f"{broken.__name__} passes: {name}"
