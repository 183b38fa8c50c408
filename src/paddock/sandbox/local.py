"""The provider of this machine: sandboxes over a runtime, each with a keeper and a folder of its own."""

import asyncio
import os
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from paddock.sandbox import files
from paddock.sandbox.box import Box, Folder
from paddock.sandbox.failures import SandboxError, SandboxGone
from paddock.sandbox.images import ImageStore, LocalImage
from paddock.sandbox.link import Link, Zygote
from paddock.sandbox.owner import Owner
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
from paddock.sandbox.runtimes import Runtime
from paddock.sandbox.settings import SandboxSettings
from paddock.types import JsonObject

REMEMBERED = 1024
"""Requests whose answers are kept for a repeat."""
T = TypeVar("T")


class LocalProvider:
    """Sandboxes on this machine."""

    def __init__(self, settings: SandboxSettings, runtime: Runtime) -> None:
        self.settings = settings
        self.runtime = runtime
        self.store = ImageStore(settings.home, payload_id=settings.payload_id)
        self._owner = Owner(settings.home)
        self._zygote = Zygote()
        self._boxes: dict[str, Box] = {}
        self._starting = asyncio.Semaphore(settings.starts_at_once)
        self._answers: OrderedDict[str, asyncio.Future[Any]] = OrderedDict()

    async def create(self, spec: SandboxSpec, *, request_id: str) -> SandboxHandle:
        return await self._once(f"create {request_id}", lambda: self._create(spec))

    async def destroy(self, sandbox_id: str) -> None:
        box = self._boxes.pop(sandbox_id, None)
        if box is None:
            return
        await box.end()
        await asyncio.to_thread(files.remove_tree, box.folder.root)

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        return await self._once(f"exec {sandbox_id} {request_id}", lambda: self._exec(sandbox_id, request))

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
        raise NotImplementedError

    async def patch(self, sandbox_id: str, root: str, *, exclude: Sequence[str] = ()) -> bytes:
        raise NotImplementedError

    async def snapshot(self, sandbox_id: str, name: str) -> str:
        raise NotImplementedError

    async def tunnel(self, sandbox_id: str, *, port: int) -> Listener:
        raise NotImplementedError

    async def stats(self, sandbox_id: str) -> Stats:
        raise NotImplementedError

    async def kills(self, sandbox_id: str) -> list[Killed]:
        raise NotImplementedError

    def live(self) -> list[SandboxHandle]:
        return [box.handle for box in self._boxes.values()]

    async def close(self) -> None:
        await asyncio.gather(*(self.destroy(name) for name in list(self._boxes)))
        await asyncio.to_thread(self._zygote.close)
        self._owner.close()

    async def _create(self, spec: SandboxSpec) -> SandboxHandle:
        image = self.store.get(spec.image)
        handle = SandboxHandle(sandbox_id=uuid.uuid4().hex[:12], runtime=self.runtime.name, spec=spec)
        folder = self._make_folder(handle.sandbox_id, image)
        try:
            async with self._starting:
                box = await self._start(handle, image, folder)
        except BaseException:
            await asyncio.to_thread(files.remove_tree, folder.root)
            raise
        self._boxes[handle.sandbox_id] = box
        return handle

    async def _start(self, handle: SandboxHandle, image: LocalImage, folder: Folder) -> Box:
        link = Link(handle.sandbox_id, self._zygote.fork())
        try:
            async with asyncio.timeout(self.settings.start_timeout_s):
                ready = await link.start(self._plan(handle.spec, image, folder))
        except SandboxGone as gone:
            raise SandboxError(f"sandbox of {handle.spec.image!r} did not start: {gone}", kind="start_failed") from gone
        except BaseException:
            link.close()
            raise
        return Box(handle, image, folder, link, pid=ready["pid"])

    def _plan(self, spec: SandboxSpec, image: LocalImage, folder: Folder) -> JsonObject:
        limits = spec.limits
        return {
            "layers": [str(layer) for layer in image.layers],
            "upper": str(folder.upper),
            "work": str(folder.work),
            "merged": str(folder.merged),
            "runtime": self.runtime.command(spec),
            "runtime_env": {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder.root), "LANG": "C.UTF-8"},
            "uid": self.store.payload_id,
            "hostname": spec.hostname,
            "blackhole": spec.network == "blackhole",
            "open_files": limits.open_files,
            "file_bytes": None if limits.disk_mib is None else limits.disk_mib << 20,
            "timeout_s": self.settings.start_timeout_s,
            "cgroups": [],
        }

    def _make_folder(self, sandbox_id: str, image: LocalImage) -> Folder:
        folder = Folder(self._owner.folder / sandbox_id)
        mine = [folder.root, folder.upper, folder.work, folder.merged]
        for path in mine:
            path.mkdir()
        # The root of the file system has the mode that the image gives it.
        folder.upper.chmod(image.layers[-1].stat().st_mode & 0o7777)
        self.store.own(mine)
        return folder

    async def _exec(self, sandbox_id: str, request: ExecRequest) -> ExecResult:
        return await self._in(sandbox_id, lambda box: box.exec(request))

    async def _in(self, sandbox_id: str, act: Callable[[Box], Awaitable[T]]) -> T:
        box = self._boxes.get(sandbox_id)
        if box is None:
            raise SandboxGone(sandbox_id)
        try:
            return await act(box)
        except SandboxError as error:
            raise box.failure(error) from error

    async def _once(self, name: str, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer of that request: one that runs is joined, one that was answered is told again; a failed one may
        be tried again."""
        known: asyncio.Future[Any] | None = self._answers.get(name)
        if known is None:
            known = asyncio.ensure_future(act())
            self._answers[name] = known
            while len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        try:
            answer: T = await asyncio.shield(known)
        except asyncio.CancelledError:
            if not known.done():
                known.cancel()
                await asyncio.wait([known])
            self._answers.pop(name, None)
            raise
        except BaseException:
            self._answers.pop(name, None)
            raise
        return answer
