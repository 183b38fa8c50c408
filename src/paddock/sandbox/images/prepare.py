"""The image that an agent gets: the task's image without what would tell the fix, made once, under a name of its own.

Made    in a sandbox of the image: `build.scrub_commands`, then `build.check_scrubbed`, which trusts nothing that the
        former did; what it still finds refuses the image. The result is a layer over the image, so a repository's
        object store is copied once, not per rollout.
Name    `<image>#agent-<hash>`: of the image's layers, the workdir, the hidden paths, the patch and the scripts.
Errors  RowError `image_leaks`: scrubbing failed, or something is left; SandboxError as ever.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Sequence
from shlex import quote
from typing import Protocol
from weakref import WeakValueDictionary

from paddock.errors import RowError
from paddock.sandbox.images.build import check_scrubbed, scrub_commands
from paddock.sandbox.images.store import ImageStore
from paddock.sandbox.protocol import Provider
from paddock.sandbox.records import ExecRequest, ExecResult, SandboxLimits, SandboxSpec

SCRUB_TIMEOUT_S = 900.0
"""For repacking a large repository."""
_PATCH = "/tmp/.paddock-patch"  # noqa: S108 - inside the sandbox
_CHANGE = (
    f"git apply --index {_PATCH} && rm {_PATCH} && git -c user.name=paddock -c user.email=paddock@localhost "
    "-c commit.gpgsign=false commit --quiet --no-verify -m task"
)
_LIMITS = SandboxLimits(disk_mib=32768, disk_files=None, memory_mib=8192)
_making: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Lock] = WeakValueDictionary()
"""A lock is of one event loop: two runs of a process, one after the other, have one each."""


class StoreProvider(Provider, Protocol):
    """A provider whose images are in reach."""

    @property
    def store(self) -> ImageStore: ...


async def prepare_image(
    provider: StoreProvider, image: str, workdir: str, hidden_paths: Sequence[str] = (), patch: bytes = b""
) -> str:
    """The name of the image that an agent may have; made where it is not there. `patch` is applied first."""
    record = (await asyncio.to_thread(provider.store.get, image)).record
    inputs = "\0".join((*record.layers, workdir, *_scripts(workdir, hidden_paths, changed=bool(patch))))
    changed = _CHANGE.encode() + patch if patch else b""
    name = f"{image}#agent-{hashlib.sha256(inputs.encode() + changed).hexdigest()[:16]}"
    async with _making.setdefault((asyncio.get_running_loop(), name), asyncio.Lock()):
        if not await asyncio.to_thread(provider.store.has, name):
            await _make(provider, image, workdir, name, hidden_paths, patch)
    return name


async def scrub_sandbox(
    provider: Provider,
    sandbox_id: str,
    image: str,
    workdir: str,
    hidden_paths: Sequence[str] = (),
    patch: bytes = b"",
) -> None:
    """Take out of one sandbox of an image what an agent may not see: where its images are out of reach.

    A `patch` is applied before, and of the history nothing is left, in which the tree is without it.
    """
    scrub, check = _scripts(workdir, hidden_paths, changed=bool(patch))
    if patch:
        await provider.write(sandbox_id, _PATCH, patch if patch.endswith(b"\n") else patch + b"\n")
        changed = await _run(provider, sandbox_id, f"cd {quote(workdir)} && {_CHANGE}")
        if not changed.ok:
            raise RowError(f"image {image!r}: {_tail(changed)}", kind="image_patch_fails", stage="seed")
    done = await _run(provider, sandbox_id, scrub)
    if not done.ok:
        raise RowError(f"image {image!r}: scrubbing failed: {_tail(done)}", kind="image_leaks", stage="seed")
    checked = await _run(provider, sandbox_id, check)
    if not checked.ok or bytes(checked.stdout).strip():
        raise RowError(
            f"image {image!r}: still shows an agent what it must not: {_tail(checked)}",
            kind="image_leaks",
            stage="seed",
        )


async def _make(
    provider: StoreProvider, image: str, workdir: str, name: str, hidden_paths: Sequence[str], patch: bytes
) -> None:
    spec = SandboxSpec(image=image, workdir="/", limits=_LIMITS, labels={"for": "scrubbing"})
    handle = await provider.create(spec, request_id=uuid.uuid4().hex)
    try:
        await scrub_sandbox(provider, handle.sandbox_id, image, workdir, hidden_paths, patch)
        await provider.snapshot(handle.sandbox_id, name)
    finally:
        await provider.destroy(handle.sandbox_id)


def _scripts(workdir: str, hidden_paths: Sequence[str], *, changed: bool) -> tuple[str, str]:
    """One that scrubs, and one that checks it."""
    single = changed or any(path == workdir or path.startswith(f"{workdir}/") for path in hidden_paths)
    return scrub_commands(workdir, hidden_paths, single_commit=single), check_scrubbed(workdir, hidden_paths)


async def _run(provider: Provider, sandbox_id: str, script: str) -> ExecResult:
    # By stdin: a script may be longer than an argument.
    request = ExecRequest(argv=["/bin/sh", "-s"], stdin=script.encode(), timeout_s=SCRUB_TIMEOUT_S, tail_bytes=1 << 16)
    return await provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)


def _tail(result: ExecResult) -> str:
    text = (bytes(result.stdout) + b"\n" + bytes(result.stderr)).decode(errors="replace").strip()
    return f"{text[-600:]} (exit status {result.exit_code})"
