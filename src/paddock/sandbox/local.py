"""The provider of this machine: sandboxes over a runtime, each with a keeper and a folder of its own."""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from paddock.sandbox import files
from paddock.sandbox.cgroups import Cgroup, Cgroups
from paddock.sandbox.failures import BudgetExceeded, SandboxError, SandboxGone, SandboxRequestError
from paddock.sandbox.images import ImageStore, LocalImage
from paddock.sandbox.keeper import shortage
from paddock.sandbox.keeper.launch import RuntimeStart, StartPlan
from paddock.sandbox.keeper.programs import EMPTY
from paddock.sandbox.keeper_client import KeeperClient
from paddock.sandbox.keeper_factory import KeeperFactory
from paddock.sandbox.layers import Archive, Patch, archive, copy_upper, patch, remove_tree
from paddock.sandbox.owner import HANDLE, OwnerFolder
from paddock.sandbox.protocol import TunnelListener
from paddock.sandbox.records import (
    ExecRequest,
    ExecResult,
    MemoryKill,
    PathChange,
    SandboxHandle,
    SandboxSpec,
    ShellRequest,
    ShellResult,
    Stats,
)
from paddock.sandbox.requests import RequestLog
from paddock.sandbox.runtimes import ContainerRuntime, RuntimeRequest
from paddock.sandbox.sandbox import Sandbox, SandboxFolder
from paddock.sandbox.settings import SandboxSettings
from paddock.sandbox.socket_listener import SocketListener
from paddock.sandbox.sweep import sweep
from paddock.sandbox.uids import Uid, draw_uid, why_shared
from paddock.sandbox.watchdog import Watchdog, WatchedSandbox
from paddock.tracing import traced
from paddock.types import JsonObject

_log = logging.getLogger(__name__)
T = TypeVar("T")


class LocalProvider:
    """Sandboxes on this machine; made in a running event loop."""

    def __init__(self, settings: SandboxSettings, runtime: ContainerRuntime, cgroups: Cgroups | None) -> None:
        self.settings = settings
        self.runtime = runtime
        self.cgroups = cgroups
        self.store = ImageStore(settings.home, payload_id=settings.payload_id)
        self._owner = OwnerFolder(settings.home)
        self._keepers = KeeperFactory(settings.start_timeout_s)
        self._sandboxes: dict[str, Sandbox] = {}
        self.started_at = float("-inf")
        """Monotonic second of the last start of a sandbox; minus infinity where a start has failed since."""
        self._starting = asyncio.Semaphore(settings.starts_at_once)
        self._requests = RequestLog()
        self._watchdog = Watchdog(settings.watchdog)
        self._watchdog.start()
        self._sweeping = asyncio.ensure_future(asyncio.to_thread(self._sweep))
        self._why_shared = asyncio.ensure_future(asyncio.to_thread(why_shared, settings, type(runtime)))

    @traced("sandbox create")
    async def create(self, spec: SandboxSpec, *, request_id: str) -> SandboxHandle:
        return await self._requests.once(
            ("create", request_id), lambda: self._create(spec), lambda handle: self.destroy(handle.sandbox_id)
        )

    @traced("sandbox destroy")
    async def destroy(self, sandbox_id: str) -> None:
        sandbox = self._sandboxes.pop(sandbox_id, None)
        if sandbox is None:
            return
        self._requests.forget(sandbox_id)
        await asyncio.shield(self._destroy(sandbox))

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        return await self._requests.once((sandbox_id, request_id), lambda: self._exec(sandbox_id, request))

    async def open_shell(self, sandbox_id: str, request: ShellRequest) -> str:
        return await self._act_on(sandbox_id, lambda sandbox: sandbox.open_shell(request))

    async def shell_run(
        self, sandbox_id: str, shell_id: str, line: str, *, timeout_s: float | None = None, wait_s: float | None = None
    ) -> ShellResult:
        return await self._act_on(
            sandbox_id, lambda sandbox: sandbox.shell(shell_id).run(line, timeout_s=timeout_s, wait_s=wait_s)
        )

    async def shell_poll(self, sandbox_id: str, shell_id: str, *, wait_s: float = 0.0) -> ShellResult:
        return await self._act_on(sandbox_id, lambda sandbox: sandbox.shell(shell_id).poll(wait_s))

    async def shell_type(self, sandbox_id: str, shell_id: str, data: bytes) -> None:
        await self._act_on(sandbox_id, lambda sandbox: sandbox.shell(shell_id).type(data))

    async def shell_interrupt(self, sandbox_id: str, shell_id: str) -> ShellResult:
        return await self._act_on(sandbox_id, lambda sandbox: sandbox.shell(shell_id).interrupt())

    async def close_shell(self, sandbox_id: str, shell_id: str) -> None:
        await self._act_on(sandbox_id, lambda sandbox: sandbox.close_shell(shell_id))

    async def read(self, sandbox_id: str, path: str, *, max_bytes: int | None = None) -> bytes:
        return await self._act_on(sandbox_id, lambda sandbox: files.read(sandbox, path, max_bytes))

    async def write(self, sandbox_id: str, path: str, data: bytes, *, mode: int | None = None) -> None:
        await self._act_on(sandbox_id, lambda sandbox: files.write(sandbox, path, data, mode))

    async def changes(self, sandbox_id: str, under: str = "/") -> list[PathChange]:
        async def find(sandbox: Sandbox) -> list[PathChange]:
            changes = await asyncio.to_thread(sandbox.view().changes, under)
            await sandbox.ensure_intact()
            return changes

        return await self._act_on(sandbox_id, find)

    @traced("sandbox patch")
    async def patch(self, sandbox_id: str, root: str, *, exclude: Sequence[str] = (), ended: bool = False) -> Patch:
        return await self._take(
            sandbox_id,
            lambda sandbox: patch(sandbox.view(), root, exclude, scratch=sandbox.folder.root),
            ended=ended,
        )

    @traced("sandbox archive")
    async def archive(
        self,
        sandbox_id: str,
        paths: Sequence[str],
        *,
        exclude: Sequence[str] = (),
        max_bytes: int,
        ended: bool = False,
    ) -> Archive:
        return await self._take(
            sandbox_id,
            lambda sandbox: archive(sandbox.view(), paths, exclude=exclude, max_bytes=max_bytes),
            ended=ended,
        )

    async def snapshot(self, sandbox_id: str, name: str) -> str:
        async def keep(sandbox: Sandbox) -> str:
            def fill(tree: Path) -> None:
                tree.rmdir()
                copy_upper(sandbox.folder.upper, tree, attributes=sandbox.folder.attributes)

            await sandbox.ensure_intact()
            origin = {"snapshot_of": sandbox.handle.spec.image}
            async with sandbox.frozen():
                await asyncio.to_thread(self.store.add, name, fill, base=sandbox.handle.spec.image, origin=origin)
            return name

        return await self._act_on(sandbox_id, keep)

    async def tunnel(self, sandbox_id: str, *, port: int) -> TunnelListener:
        async def listen(sandbox: Sandbox) -> TunnelListener:
            return SocketListener(await sandbox.keeper.listen(port))

        return await self._act_on(sandbox_id, listen)

    async def stats(self, sandbox_id: str) -> Stats:
        async def measure(sandbox: Sandbox) -> Stats:
            reading = await self._watchdog.measure(sandbox_id)
            return Stats(
                memory_mib=reading.use.memory_bytes / 2**20,
                peak_memory_mib=reading.peak_memory_bytes / 2**20,
                disk_mib=reading.disk.bytes / 2**20,
                disk_files=reading.disk.files,
                pids=reading.use.pids,
                cpu_s=reading.use.cpu_s,
                memory_kills=reading.memory_kills,
                kernel_kills=reading.kernel_kills,
            )

        return await self._act_on(sandbox_id, measure)

    async def kills(self, sandbox_id: str) -> list[MemoryKill]:
        async def take(sandbox: Sandbox) -> list[MemoryKill]:
            await self._watchdog.look(sandbox_id)
            if sandbox.reason is not None:
                raise sandbox.reason  # it may be that the machine killed
            taken, sandbox.kills[:] = list(sandbox.kills), []
            return taken

        return await self._act_on(sandbox_id, take)

    def live(self) -> list[SandboxHandle]:
        return [sandbox.handle for sandbox in self._sandboxes.values()]

    async def try_start(self, image: LocalImage) -> None:
        """Start a sandbox of an image, of any store, and end it; raises what a start may raise."""
        sandbox = await self._begin(SandboxSpec(image=image.record.name, labels={"for": "readiness"}), image)
        await asyncio.shield(self._destroy(sandbox))

    async def close(self) -> None:
        await asyncio.gather(*(self.destroy(name) for name in list(self._sandboxes)))
        await self._watchdog.close()
        await asyncio.wait([self._sweeping, self._why_shared])
        await self._keepers.close()
        if self.cgroups:
            await asyncio.to_thread(self.cgroups.remove_owner, self._owner.id)
        self._owner.close()

    async def _create(self, spec: SandboxSpec) -> SandboxHandle:
        sandbox = await self._begin(spec, self.store.get(spec.image))
        self._sandboxes[sandbox.handle.sandbox_id] = sandbox
        return sandbox.handle

    async def _begin(self, spec: SandboxSpec, image: LocalImage) -> Sandbox:
        handle = SandboxHandle(sandbox_id=uuid.uuid4().hex[:12], runtime=self.runtime.name, spec=spec)
        async with self._starting:
            try:
                sandbox = await self._start(handle, image)
            except (SandboxError, OSError):
                self.started_at = float("-inf")
                raise
        self.started_at = time.monotonic()
        return sandbox

    async def _start(self, handle: SandboxHandle, image: LocalImage) -> Sandbox:
        """Start a sandbox; nothing of it stays where that fails."""
        with await self._uid(handle.spec) as uid:
            return await self._start_as(uid, handle, image)

    async def _uid(self, spec: SandboxSpec) -> AbstractContextManager[Uid]:
        if self.settings.uids is None or await asyncio.shield(self._why_shared) is not None:
            return contextlib.nullcontext(Uid(self.store.payload_id, []))
        return draw_uid(self.settings.uids, spec.purpose)

    async def _start_as(self, uid: Uid, handle: SandboxHandle, image: LocalImage) -> Sandbox:
        sandbox = await self._make_sandbox(handle, image)
        folder = sandbox.folder
        try:
            async with asyncio.timeout(self.settings.start_timeout_s):
                request = RuntimeRequest(
                    handle.sandbox_id, self._owner.id, handle.spec, image, folder.root, self.store.payload_id
                )
                start = await self.runtime.begin(request)
                sandbox.folder = folder._replace(engine_upper=Path(start.upper) if start.upper else None)
                ready = await sandbox.keeper.start(self._plan(sandbox, image, uid, start), uid.lock)
            await self._watchdog.watch(self._watched(sandbox, ready))
            sandbox.look = lambda: self._watchdog.look(handle.sandbox_id)
            sandbox.first_process_status = lambda: self.runtime.status(handle.sandbox_id)
        except BaseException as error:
            await asyncio.shield(self._destroy(sandbox))
            if isinstance(error, SandboxGone | TimeoutError):
                why = str(error) or f"not within start_timeout_s, {self.settings.start_timeout_s:g} s"
                message = f"sandbox of {handle.spec.image!r} did not start: {why}"
                raise SandboxError(message, kind="start_failed") from error
            raise
        return sandbox

    async def _make_sandbox(self, handle: SandboxHandle, image: LocalImage) -> Sandbox:
        """Make its keeper, cgroup and folder; SandboxError where this machine has no room for one of them."""
        keeper = await self._keepers.fork()
        cgroup = None
        try:
            cgroup = await self._make_cgroup(handle)
            folder = self._make_folder(handle, image)
            return Sandbox(
                handle, image, folder, KeeperClient(handle.sandbox_id, keeper, self.settings.answer_timeout_s), cgroup
            )
        except BaseException as error:
            keeper.close()
            if cgroup is not None:
                await asyncio.to_thread(cgroup.remove)
            with contextlib.suppress(OSError):  # as where there are too few open files: it goes with its owner
                await asyncio.to_thread(remove_tree, self._owner.folder / handle.sandbox_id)
            if isinstance(error, OSError):
                message = f"sandbox of {handle.spec.image!r} did not start: {shortage.explain(error)}"
                raise SandboxError(message, kind="start_failed") from error
            raise

    async def _destroy(self, sandbox: Sandbox) -> None:
        await self._watchdog.unwatch(sandbox.handle.sandbox_id)
        ended = await sandbox.end(self.settings.stop_timeout_s)
        await self.runtime.end(sandbox.handle.sandbox_id)
        await asyncio.to_thread(remove_tree, sandbox.folder.root)
        if not ended:
            _log.warning("sandbox %s was not gone in %g s", sandbox.handle.sandbox_id, self.settings.stop_timeout_s)

    async def _make_cgroup(self, handle: SandboxHandle) -> Cgroup | None:
        if self.cgroups is None:
            return None
        return await asyncio.to_thread(self.cgroups.make, self._owner.id, handle.sandbox_id, handle.spec.limits)

    def _watched(self, sandbox: Sandbox, ready: JsonObject) -> WatchedSandbox:
        return WatchedSandbox(
            sandbox_id=sandbox.handle.sandbox_id,
            limits=sandbox.handle.spec.limits,
            pid=ready["init"],
            inside_pid=ready["pid"],
            on_killed=sandbox.on_killed,
            on_exhausted=lambda budget, message: sandbox.give_up(BudgetExceeded(budget, message)),
            on_lost=sandbox.give_up,
            cgroup=sandbox.cgroup,
            upper=sandbox.folder.upper,
            spare=sandbox.shell_pids,
        )

    def _plan(self, sandbox: Sandbox, image: LocalImage, uid: Uid, start: RuntimeStart) -> StartPlan:
        spec, folder, cgroup = sandbox.handle.spec, sandbox.folder, sandbox.cgroup
        return StartPlan(
            layers=[str(layer) for layer in image.layers],
            upper=str(folder.upper),
            work=str(folder.work),
            merged=str(folder.merged),
            uid=uid.number,
            stored_uid=self.store.payload_id,
            hostname=spec.hostname,
            blackhole=spec.network == "blackhole",
            shm_bytes=spec.limits.shm_mib << 20,
            process_limits=spec.limits.of_each_process(),
            timeout_s=self.settings.start_timeout_s,
            spawn_timeout_s=self.settings.answer_timeout_s / 2,
            programs=[str(self._program(name)) for name in spec.programs],
            cgroups=[str(path) for path in cgroup.procs_files] if cgroup else [],
            runtime=start,
        )

    def _program(self, name: str) -> Path:
        folder = self.settings.programs / name
        if not folder.is_dir():
            raise SandboxRequestError(f"{folder}: there is no such program: paddock harness list", kind="no_program")
        (self.settings.programs / EMPTY).mkdir(exist_ok=True)
        return folder

    def _make_folder(self, handle: SandboxHandle, image: LocalImage) -> SandboxFolder:
        folder = SandboxFolder(self._owner.folder / handle.sandbox_id)
        folders = [folder.root, folder.upper, folder.work, folder.merged]
        for path in folders:
            path.mkdir()
        # The root of the file system has the mode that the image gives it.
        folder.upper.chmod(image.layers[-1].stat().st_mode & 0o7777)
        self.store.own(folders)
        (folder.root / HANDLE).write_text(handle.model_dump_json())
        return folder

    def _sweep(self) -> None:
        """Remove what dead owners left; an error is logged, and this provider's sandboxes live on."""
        try:
            sweeps = sweep(self.settings.home, self.cgroups)
        except Exception:  # noqa: BLE001 - logged
            _log.exception("left-overs of dead owners could not be removed")
        else:
            for owner_sweep in sweeps:
                _log.info(
                    "removed what owner %s left: %s",
                    owner_sweep.owner_id,
                    ", ".join(owner_sweep.removed) or "its folder",
                )

    async def _take(self, sandbox_id: str, take: Callable[[Sandbox], T], *, ended: bool) -> T:
        """Read a sandbox's layers while nothing runs in it."""

        async def read(sandbox: Sandbox) -> T:
            if ended:
                await sandbox.wait_until_gone(self.settings.stop_timeout_s)
            async with sandbox.frozen():
                taken = await asyncio.to_thread(take, sandbox)
            if not ended:
                await sandbox.ensure_intact()
            return taken

        return await self._act_on(sandbox_id, read)

    async def _exec(self, sandbox_id: str, request: ExecRequest) -> ExecResult:
        return await self._act_on(sandbox_id, lambda sandbox: sandbox.exec(request))

    async def _act_on(self, sandbox_id: str, act: Callable[[Sandbox], Awaitable[T]]) -> T:
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            raise SandboxGone(sandbox_id)
        try:
            return await act(sandbox)
        except SandboxError as error:
            raise await sandbox.failure(error) from error
