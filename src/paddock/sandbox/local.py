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
from paddock.sandbox.box import Box, Folder
from paddock.sandbox.cgroups import Cgroup, Cgroups
from paddock.sandbox.failures import BudgetExceeded, SandboxError, SandboxGone, SandboxRequestError
from paddock.sandbox.images import ImageStore, LocalImage
from paddock.sandbox.keeper import shortage
from paddock.sandbox.keeper.programs import EMPTY
from paddock.sandbox.keepers import Keepers
from paddock.sandbox.layers import Patch, copy_upper, patch, remove_tree
from paddock.sandbox.link import Link
from paddock.sandbox.listening import SocketListener
from paddock.sandbox.owner import HANDLE, Owner
from paddock.sandbox.protocol import Listener
from paddock.sandbox.records import (
    ExecRequest,
    ExecResult,
    FileChange,
    Killed,
    SandboxHandle,
    SandboxSpec,
    ShellRequest,
    ShellResult,
    Stats,
)
from paddock.sandbox.requests import Requests
from paddock.sandbox.runtimes import Runtime, Wish
from paddock.sandbox.settings import SandboxSettings
from paddock.sandbox.sweeping import sweep
from paddock.sandbox.uids import Uid, drawn, why_shared
from paddock.sandbox.watchdog import Watchdog, Watched
from paddock.types import JsonObject

_log = logging.getLogger(__name__)
T = TypeVar("T")


class LocalProvider:
    """Sandboxes on this machine; made in a running event loop."""

    def __init__(self, settings: SandboxSettings, runtime: Runtime, cgroups: Cgroups | None) -> None:
        self.settings = settings
        self.runtime = runtime
        self.cgroups = cgroups
        self.store = ImageStore(settings.home, payload_id=settings.payload_id)
        self._owner = Owner(settings.home)
        self._keepers = Keepers(settings.start_timeout_s)
        self._boxes: dict[str, Box] = {}
        self.started_at = float("-inf")
        """Monotonic second at which a sandbox started, where none has failed to since."""
        self._starting = asyncio.Semaphore(settings.starts_at_once)
        self._requests = Requests()
        self._dog = Watchdog(settings.watchdog)
        self._dog.start()
        self._sweeping = asyncio.ensure_future(asyncio.to_thread(self._sweep))
        self._why_shared = asyncio.ensure_future(asyncio.to_thread(why_shared, settings, type(runtime)))

    async def create(self, spec: SandboxSpec, *, request_id: str) -> SandboxHandle:
        return await self._requests.once(
            ("create", request_id), lambda: self._create(spec), lambda handle: self.destroy(handle.sandbox_id)
        )

    async def destroy(self, sandbox_id: str) -> None:
        box = self._boxes.pop(sandbox_id, None)
        if box is None:
            return
        self._requests.forget(sandbox_id)
        await asyncio.shield(self._destroy(box))

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        return await self._requests.once((sandbox_id, request_id), lambda: self._exec(sandbox_id, request))

    async def open_shell(self, sandbox_id: str, request: ShellRequest) -> str:
        return await self._in(sandbox_id, lambda box: box.open_shell(request))

    async def shell_run(
        self, sandbox_id: str, shell_id: str, line: str, *, timeout_s: float | None = None, wait_s: float | None = None
    ) -> ShellResult:
        return await self._in(sandbox_id, lambda box: box.shell(shell_id).run(line, timeout_s=timeout_s, wait_s=wait_s))

    async def shell_poll(self, sandbox_id: str, shell_id: str, *, wait_s: float = 0.0) -> ShellResult:
        return await self._in(sandbox_id, lambda box: box.shell(shell_id).poll(wait_s))

    async def shell_type(self, sandbox_id: str, shell_id: str, data: bytes) -> None:
        await self._in(sandbox_id, lambda box: box.shell(shell_id).type(data))

    async def shell_interrupt(self, sandbox_id: str, shell_id: str) -> ShellResult:
        return await self._in(sandbox_id, lambda box: box.shell(shell_id).interrupt())

    async def close_shell(self, sandbox_id: str, shell_id: str) -> None:
        await self._in(sandbox_id, lambda box: box.close_shell(shell_id))

    async def read(self, sandbox_id: str, path: str, *, max_bytes: int | None = None) -> bytes:
        return await self._in(sandbox_id, lambda box: files.read(box, path, max_bytes))

    async def write(self, sandbox_id: str, path: str, data: bytes, *, mode: int | None = None) -> None:
        await self._in(sandbox_id, lambda box: files.write(box, path, data, mode))

    async def changes(self, sandbox_id: str, under: str = "/") -> list[FileChange]:
        async def find(box: Box) -> list[FileChange]:
            found = await asyncio.to_thread(box.view().changes, under)
            await box.lasted()
            return found

        return await self._in(sandbox_id, find)

    async def patch(self, sandbox_id: str, root: str, *, exclude: Sequence[str] = (), ended: bool = False) -> Patch:
        async def make(box: Box) -> Patch:
            if ended:
                await box.quiet(self.settings.stop_timeout_s)
            async with box.still():
                made = await asyncio.to_thread(patch, box.view(), root, exclude, scratch=box.folder.root)
            if not ended:
                await box.lasted()
            return made

        return await self._in(sandbox_id, make)

    async def snapshot(self, sandbox_id: str, name: str) -> str:
        async def keep(box: Box) -> str:
            def fill(tree: Path) -> None:
                tree.rmdir()
                copy_upper(box.folder.upper, tree, attributes=box.folder.attributes)

            await box.lasted()
            origin = {"snapshot_of": box.handle.spec.image}
            async with box.still():
                await asyncio.to_thread(self.store.add, name, fill, base=box.handle.spec.image, origin=origin)
            return name

        return await self._in(sandbox_id, keep)

    async def tunnel(self, sandbox_id: str, *, port: int) -> Listener:
        async def listen(box: Box) -> Listener:
            return SocketListener(await box.link.listen(port))

        return await self._in(sandbox_id, listen)

    async def stats(self, sandbox_id: str) -> Stats:
        async def measure(box: Box) -> Stats:
            reading = await self._dog.measure(sandbox_id)
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

        return await self._in(sandbox_id, measure)

    async def kills(self, sandbox_id: str) -> list[Killed]:
        async def take(box: Box) -> list[Killed]:
            await self._dog.look(sandbox_id)
            if box.reason is not None:
                raise box.reason  # it may be that the machine killed
            taken, box.kills[:] = list(box.kills), []
            return taken

        return await self._in(sandbox_id, take)

    def live(self) -> list[SandboxHandle]:
        return [box.handle for box in self._boxes.values()]

    async def try_start(self, image: LocalImage) -> None:
        """Start a sandbox of an image, of whatever store, and end it; what a start may raise."""
        box = await self._begin(SandboxSpec(image=image.record.name, labels={"for": "readiness"}), image)
        await asyncio.shield(self._destroy(box))

    async def close(self) -> None:
        await asyncio.gather(*(self.destroy(name) for name in list(self._boxes)))
        await self._dog.close()
        await asyncio.wait([self._sweeping, self._why_shared])
        await self._keepers.close()
        if self.cgroups:
            await asyncio.to_thread(self.cgroups.remove_owner, self._owner.id)
        self._owner.close()

    async def _create(self, spec: SandboxSpec) -> SandboxHandle:
        box = await self._begin(spec, self.store.get(spec.image))
        self._boxes[box.handle.sandbox_id] = box
        return box.handle

    async def _begin(self, spec: SandboxSpec, image: LocalImage) -> Box:
        handle = SandboxHandle(sandbox_id=uuid.uuid4().hex[:12], runtime=self.runtime.name, spec=spec)
        async with self._starting:
            try:
                box = await self._start(handle, image)
            except (SandboxError, OSError):
                self.started_at = float("-inf")
                raise
        self.started_at = time.monotonic()
        return box

    async def _start(self, handle: SandboxHandle, image: LocalImage) -> Box:
        """Nothing of it stays when it does not start."""
        with await self._uid(handle.spec) as uid:
            return await self._start_as(uid, handle, image)

    async def _uid(self, spec: SandboxSpec) -> AbstractContextManager[Uid]:
        if self.settings.uids is None or await asyncio.shield(self._why_shared) is not None:
            return contextlib.nullcontext(Uid(self.store.payload_id, []))
        return drawn(self.settings.uids, spec.purpose)

    async def _start_as(self, uid: Uid, handle: SandboxHandle, image: LocalImage) -> Box:
        box = await self._make_box(handle, image)
        folder = box.folder
        try:
            async with asyncio.timeout(self.settings.start_timeout_s):
                wish = Wish(handle.sandbox_id, self._owner.id, handle.spec, image, folder.root, self.store.payload_id)
                begun = await self.runtime.begin(wish)
                box.folder = folder._replace(engine_upper=begun.upper)
                plan = {**self._plan(handle.spec, image, folder, box.cgroup), "uid": uid.number, **begun.plan}
                ready = await box.link.start(plan, uid.lock)
            await self._dog.watch(self._watched(box, ready))
            box.look = lambda: self._dog.look(handle.sandbox_id)
            box.first_status = lambda: self.runtime.status(handle.sandbox_id)
        except BaseException as error:
            await asyncio.shield(self._destroy(box))
            if isinstance(error, SandboxGone | TimeoutError):
                why = str(error) or f"not within start_timeout_s, {self.settings.start_timeout_s:g} s"
                message = f"sandbox of {handle.spec.image!r} did not start: {why}"
                raise SandboxError(message, kind="start_failed") from error
            raise
        return box

    async def _make_box(self, handle: SandboxHandle, image: LocalImage) -> Box:
        """Its keeper, cgroup and folder; SandboxError where this machine has no room for one of them."""
        keeper = await self._keepers.fork()
        cgroup = None
        try:
            cgroup = await self._make_cgroup(handle)
            folder = self._make_folder(handle, image)
            return Box(handle, image, folder, Link(handle.sandbox_id, keeper, self.settings.answer_timeout_s), cgroup)
        except BaseException as error:
            keeper.close()
            if cgroup is not None:
                await asyncio.to_thread(cgroup.remove)
            with contextlib.suppress(OSError):  # as where there are too few open files: it goes with its owner
                await asyncio.to_thread(remove_tree, self._owner.folder / handle.sandbox_id)
            if isinstance(error, OSError):
                message = f"sandbox of {handle.spec.image!r} did not start: {shortage.explained(error)}"
                raise SandboxError(message, kind="start_failed") from error
            raise

    async def _destroy(self, box: Box) -> None:
        await self._dog.unwatch(box.handle.sandbox_id)
        ended = await box.end(self.settings.stop_timeout_s)
        await self.runtime.end(box.handle.sandbox_id)
        await asyncio.to_thread(remove_tree, box.folder.root)
        if not ended:
            _log.warning("sandbox %s was not gone in %g s", box.handle.sandbox_id, self.settings.stop_timeout_s)

    async def _make_cgroup(self, handle: SandboxHandle) -> Cgroup | None:
        if self.cgroups is None:
            return None
        return await asyncio.to_thread(self.cgroups.make, self._owner.id, handle.sandbox_id, handle.spec.limits)

    def _watched(self, box: Box, ready: JsonObject) -> Watched:
        return Watched(
            sandbox_id=box.handle.sandbox_id,
            limits=box.handle.spec.limits,
            pid=ready["init"],
            inside_pid=ready["pid"],
            on_killed=box.on_killed,
            on_exhausted=lambda budget, message: box.give_up(BudgetExceeded(budget, message)),
            on_lost=box.give_up,
            cgroup=box.cgroup,
            upper=box.folder.upper,
            spare=box.shell_pids,
        )

    def _plan(self, spec: SandboxSpec, image: LocalImage, folder: Folder, cgroup: Cgroup | None) -> JsonObject:
        limits = spec.limits
        return {
            "layers": [str(layer) for layer in image.layers],
            "upper": str(folder.upper),
            "work": str(folder.work),
            "merged": str(folder.merged),
            "stored_uid": self.store.payload_id,
            "hostname": spec.hostname,
            "blackhole": spec.network == "blackhole",
            "shm_bytes": limits.shm_mib << 20,
            "open_files": limits.open_files,
            "file_bytes": None if limits.disk_mib is None else limits.disk_mib << 20,
            "timeout_s": self.settings.start_timeout_s,
            "spawn_timeout_s": self.settings.answer_timeout_s / 2,
            "programs": [str(self._program(name)) for name in spec.programs],
            "cgroups": [str(path) for path in cgroup.procs_files] if cgroup else [],
        }

    def _program(self, name: str) -> Path:
        folder = self.settings.programs / name
        if not folder.is_dir():
            raise SandboxRequestError(f"{folder}: there is no such program: paddock harness list", kind="no_program")
        (self.settings.programs / EMPTY).mkdir(exist_ok=True)
        return folder

    def _make_folder(self, handle: SandboxHandle, image: LocalImage) -> Folder:
        folder = Folder(self._owner.folder / handle.sandbox_id)
        mine = [folder.root, folder.upper, folder.work, folder.merged]
        for path in mine:
            path.mkdir()
        # The root of the file system has the mode that the image gives it.
        folder.upper.chmod(image.layers[-1].stat().st_mode & 0o7777)
        self.store.own(mine)
        (folder.root / HANDLE).write_text(handle.model_dump_json())
        return folder

    def _sweep(self) -> None:
        """Remove what dead owners left; whatever comes of it, ours live on."""
        try:
            swept = sweep(self.settings.home, self.cgroups)
        except Exception:  # noqa: BLE001 - as said
            _log.exception("left-overs of dead owners could not be removed")
        else:
            for one in swept:
                _log.info("removed what owner %s left: %s", one.owner_id, ", ".join(one.what) or "its folder")

    async def _exec(self, sandbox_id: str, request: ExecRequest) -> ExecResult:
        return await self._in(sandbox_id, lambda box: box.exec(request))

    async def _in(self, sandbox_id: str, act: Callable[[Box], Awaitable[T]]) -> T:
        box = self._boxes.get(sandbox_id)
        if box is None:
            raise SandboxGone(sandbox_id)
        try:
            return await act(box)
        except SandboxError as error:
            raise await box.failure(error) from error
