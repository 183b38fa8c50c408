"""Docker, where a daemon of this machine answers and we are root (its containers' namespaces are the host's to join).

Image   the store's layers, imported as one layer under `paddock/layers:<hash of their ids>`, once for each stack.
Name    a container is `paddock-<sandbox id>`, with the labels `paddock.owner` and `paddock.sandbox`.
Upper   `overlay2` keeps a container's writes in a folder that `inspect` names; other storage drivers are refused.
Limits  Docker's are on the container's first process; commands are in cgroups of ours, as everywhere.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.images import LocalImage
from paddock.sandbox.keeper import pid1
from paddock.sandbox.keeper.launch import RuntimeStart
from paddock.sandbox.records import RuntimeName
from paddock.sandbox.runtimes.runtime import RuntimeRequest

OWNER_LABEL = "paddock.owner"
DRIVER = "overlay2"
_ANSWER_S = 3.0
_CLEAN_S = 30.0
_GONE_S = 10.0
# Tar of the merged layers, in a mount namespace of its own: the mount ends with it.
_PACK = 'mount -t overlay overlay -o "$1" "$2" && exec tar --numeric-owner -C "$2" -cf - .'


class Docker:
    name: ClassVar[RuntimeName] = "docker"
    own_uids: ClassVar[bool] = False

    def __init__(self) -> None:
        self._importing = asyncio.Lock()

    def missing(self) -> str | None:
        if not shutil.which("docker"):
            return "no docker on PATH: apt-get install docker.io, and start its daemon"
        if os.geteuid() != 0:
            return "needs root, to join a container's namespaces: use apptainer or bubblewrap, or sudo"
        try:
            driver = _docker_blocking(["info", "--format", "{{.Driver}}"], _ANSWER_S).strip()
        except (OSError, subprocess.SubprocessError) as error:
            return f"no daemon answers ({_error_text(error)}): systemctl start docker"
        return None if driver == DRIVER else f"its storage driver is {driver}: start dockerd --storage-driver {DRIVER}"

    def version(self) -> str:
        return _docker_blocking(["version", "--format", "{{.Server.Version}}"], _ANSWER_S).strip()

    async def begin(self, request: RuntimeRequest) -> RuntimeStart:
        image = await self._image(request.image, request.folder)
        name, program = _name(request.sandbox_id), request.folder / "init"
        pid1.write(str(program))
        user, limits = f"{request.payload_id}:{request.payload_id}", request.spec.limits
        await _docker(
            *("run", "--detach", "--interactive", "--pull", "never", "--name", name, "--network", "none"),
            *("--label", f"{OWNER_LABEL}={request.owner_id}", "--label", f"paddock.sandbox={request.sandbox_id}"),
            *("--user", user, "--hostname", request.spec.hostname, "--log-driver", "none", "--restart", "no"),
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--workdir", "/"),
            *(["--memory", f"{limits.memory_mib}m"] if limits.memory_mib else []),
            *(["--pids-limit", str(limits.pids)] if limits.pids else []),
            *("--volume", f"{program}:{pid1.PATH}:ro", "--entrypoint", pid1.PATH, image),
        )
        try:
            container: dict[str, Any] = json.loads(await _docker("inspect", "--type", "container", name))[0]
            pid, layers = container["State"]["Pid"], container["GraphDriver"]["Data"]
            if not pid or not os.path.exists(f"/proc/{pid}/ns/pid"):  # noqa: ASYNC240, PTH110 - the kernel's, at once
                raise SandboxError(f"its container ended at once, or is not on this machine: {container['State']}")
        except BaseException:
            await self.end(request.sandbox_id)
            raise
        engine_layer = layers["LowerDir"].split(":")[0]
        return RuntimeStart(container=(pid, str(program), engine_layer), upper=layers["UpperDir"])

    async def status(self, sandbox_id: str) -> int | None:
        with contextlib.suppress(TimeoutError, SandboxError, ValueError):
            async with asyncio.timeout(_ANSWER_S):
                return int(await _docker("wait", _name(sandbox_id)))
        return None

    async def end(self, sandbox_id: str) -> None:
        name = _name(sandbox_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GONE_S):
                while await _docker("ps", "--all", "--quiet", "--filter", f"name=^{name}$"):
                    with contextlib.suppress(SandboxError):  # it is being removed, or gone
                        await _docker("rm", "--force", name)

    def clean(self, owner_id: str) -> list[str]:
        try:
            names = _docker_blocking(
                ["ps", "--all", "--filter", f"label={OWNER_LABEL}={owner_id}", "--format", "{{.Names}}"], _ANSWER_S
            ).split()
            if names:
                _docker_blocking(["rm", "--force", *names], _CLEAN_S)
        except subprocess.SubprocessError as error:
            raise OSError(f"docker: {_error_text(error)}") from error
        return [f"container {name}" for name in names]

    async def _image(self, image: LocalImage, folder: Path) -> str:
        stack = hashlib.sha256("\n".join(image.record.layers).encode()).hexdigest()[:24]
        tag = f"paddock/layers:{stack}"
        async with self._importing:
            if not await _docker("images", "--quiet", tag):
                await _import(image.layers, folder / "merged", tag)
        return tag


async def _import(layers: Sequence[Path], mount_point: Path, tag: str) -> None:
    if len(layers) == 1:
        packing = ["tar", "--numeric-owner", "-C", str(layers[0]), "-cf", "-", "."]
    else:
        lower = ":".join(_escape(str(layer)) for layer in reversed(layers))
        options = f"ro,userxattr,lowerdir={lower}"
        packing = ["unshare", "--mount", "--", "sh", "-c", _PACK, "sh", options, str(mount_point)]
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        packer = await asyncio.create_subprocess_exec(*packing, stdout=write, stderr=asyncio.subprocess.PIPE)
        os.close(write)
        write = -1
        try:
            await _docker("import", "-", tag, stdin=read)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                packer.kill()
            raise
    finally:
        os.close(read)
        if write >= 0:
            os.close(write)
    text = (await packer.communicate())[1]
    if packer.returncode:
        await _docker("rmi", tag)
        raise SandboxError(f"packing an image for docker failed: {text.decode(errors='replace')}", kind="docker")


def _escape(path: str) -> str:
    """As overlayfs reads paths in its options."""
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


async def _docker(*words: str, stdin: int = asyncio.subprocess.DEVNULL) -> bytes:
    """Run docker; its output, or SandboxError with the end of its error output."""
    process = await asyncio.create_subprocess_exec(
        "docker", *words, stdin=stdin, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise SandboxError(f"docker {words[0]}: {err.decode(errors='replace').strip()[-1000:]}", kind="docker")
    return out.strip()


def _docker_blocking(words: list[str], timeout_s: float) -> str:
    """Run docker, blocking: for threads; its output."""
    done = subprocess.run(
        ["docker", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=True
    )
    return done.stdout


def _error_text(error: Exception) -> str:
    text = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    return str(text).strip().splitlines()[-1] if str(text).strip() else type(error).__name__


def _name(sandbox_id: str) -> str:
    return f"paddock-{sandbox_id}"
