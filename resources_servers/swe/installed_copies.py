"""A copy of the project installed beside its tree that already has the fix: an agent would only have to read it.

Where   `site-packages` and `dist-packages` outside the workdir, at the fixed file's own place in its package; what
        another distribution vendors under its own name is `swe check`'s to tell.
Found   a file there with at least half of the fix's distinctive lines (`checks.visible_text`), as older ones lack.
Errors  RowError `image_leaks` names the copies. Looked for once per image.
"""

import asyncio
from pathlib import PurePosixPath
from shlex import quote

from paddock.errors import RowError
from paddock.resources_servers.swe.checks.visible_text import FixedFile, distinctive, fixed_files
from paddock.resources_servers.swe.grading.sandbox import GradingSandbox, open_grading_sandbox
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox import Provider, SandboxLimits

_SOURCES = ("src", "lib", "python")
"""Folders of a tree that are no part of a package's name."""


class InstalledCopies:
    """Looks for installed copies once per image and instance."""

    def __init__(self, provider: Provider, limits: SandboxLimits) -> None:
        self._provider = provider
        self._limits = limits
        self._clean: set[tuple[str, str]] = set()
        self._locks: dict[str, asyncio.Lock] = {}

    async def refuse(self, instance: SweInstance, image: str) -> None:
        """Raise RowError where `image` holds an installed copy of the fixed project."""
        key = (image, instance.instance_id)
        files = [file for file in fixed_files(instance.gold_patch) if file.added]
        if not files or key in self._clean:
            return
        async with self._locks.setdefault(image, asyncio.Lock()):
            if key in self._clean:
                return
            async with open_grading_sandbox(self._provider, instance, image, self._limits) as sandbox:
                copies = [path for file in files for path in await _copies(sandbox, file)]
            if copies:
                raise RowError(
                    f"image {image!r}: an installed copy of the project has the fix: {', '.join(copies[:3])}; install "
                    "the tree itself, and no later release of it",
                    kind="image_leaks",
                    stage="seed",
                )
            self._clean.add(key)


async def _copies(sandbox: GradingSandbox, file: FixedFile) -> list[str]:
    parts = PurePosixPath(file.path).parts
    path_in_package = "/".join(parts[1:] if len(parts) > 1 and parts[0] in _SOURCES else parts)
    named = " -o ".join(f"-path {quote(f'*/{folder}-packages/{path_in_package}')}" for folder in ("site", "dist"))
    script = rf"find / -xdev \( -path /proc -o -path {quote(sandbox.workdir)} \) -prune -o -type f \( {named} \) -print"
    output = bytes((await sandbox.run(("/bin/sh", "-c", script), merge=False)).stdout)
    before = (await sandbox.read(sandbox.below(file.path)) or b"").decode(errors="replace")
    lines = distinctive([file], before)
    copies = []
    for path in output.decode(errors="surrogateescape").splitlines():
        text = (await sandbox.read(path) or b"").decode(errors="replace")
        if lines and 2 * sum(line in text for line in lines) >= len(lines):
            copies.append(path)
    return copies
