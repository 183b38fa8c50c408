"""One sandbox for grading: a context that creates and always destroys it, and the few things done in it.

Env     clean: UTC, C.UTF-8, a home of its own that is empty; beside the image's and the row's own variables.
Errors  the sandbox's failures are raised as they are; a program that the image lacks is VerifierError, and so is a
        budget that is used up before anything of a patch is there.
"""

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from paddock.errors import VerifierError
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox import BudgetExceeded, ExecRequest, ExecResult, PathChange, Provider, SandboxLimits, SandboxSpec

STEP_FAILED = "step_failed"
"""Kind of the error of a grader's own step that failed."""
HOME = "/tmp/home"  # noqa: S108 - inside the sandbox
STEP_TIMEOUT_S = 120.0
"""For git and the like; tests have a limit of their own."""
OUTPUT_BYTES = 32 << 20
"""Output kept of a step, at its head and at its tail."""
TESTS_OUTPUT_BYTES = 8 << 20
"""The same of tests: what code under test wrote is parsed line by line, and that takes seconds for some MiB."""


class GradingSandbox:
    """A live sandbox with an instance's tree."""

    def __init__(self, provider: Provider, sandbox_id: str, workdir: str) -> None:
        self._provider = provider
        self._id = sandbox_id
        self.workdir = workdir

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = STEP_TIMEOUT_S,
        merge: bool = True,
        output_bytes: int = OUTPUT_BYTES,
    ) -> ExecResult:
        """Run a command; returns its result, whatever that is."""
        request = ExecRequest(
            argv=list(argv),
            workdir=self.workdir,
            stdin=stdin,
            timeout_s=timeout_s,
            merge_stderr=merge,
            head_bytes=output_bytes,
            tail_bytes=output_bytes,
        )
        return await self._provider.exec(self._id, request, request_id=uuid.uuid4().hex)

    async def must(self, argv: Sequence[str], what: str, *, stdin: bytes = b"") -> bytes:
        """Run a grader's own step, which fails only by the image's or the machine's fault; returns its output.

        Raises VerifierError, which names `what` was done, where the command fails.
        """
        done = await self.run(argv, stdin=stdin, merge=False)
        if not done.ok:
            output = (bytes(done.stderr) or bytes(done.stdout)).decode(errors="replace").strip()[-500:]
            raise VerifierError(f"{what}: `{argv[0]}` ended with {done.exit_code}: {output}", kind=STEP_FAILED)
        return bytes(done.stdout)

    async def read(self, path: str) -> bytes | None:
        """Read a file; None where there is none."""
        try:
            return await self._provider.read(self._id, path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    async def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        await self._provider.write(self._id, path, data, mode=mode)

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove paths; of a symlink the link, not what it names."""
        for start in range(0, len(paths), 500):
            await self.must(["rm", "-rf", "--", *paths[start : start + 500]], "removing what the reference lacks")

    async def disk_mib(self) -> float:
        """Return the MiB that the sandbox has written over its image."""
        return (await self._provider.stats(self._id)).disk_mib

    async def kernel_kills(self) -> int | None:
        """Return how many of its processes the kernel has killed for want of memory; None: this machine can't tell."""
        return (await self._provider.stats(self._id)).kernel_kills

    async def changes(self, under: str | None = None) -> list[PathChange]:
        """Return what differs from the image, as the host sees it; git's own folder is left out."""
        changes = await self._provider.changes(self._id, under or self.workdir)
        return [change for change in changes if not change.path.startswith(f"{self.workdir}/.git/")]

    def below(self, path: str) -> str:
        """Make a path below the workdir absolute."""
        return f"{self.workdir}/{path}"


@asynccontextmanager
async def open_grading_sandbox(
    provider: Provider,
    instance: SweInstance,
    image: str,
    limits: SandboxLimits,
    *,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[GradingSandbox]:
    """Create a fresh sandbox of an instance's image; it is destroyed at the end."""
    spec = SandboxSpec(
        image=image,
        workdir=instance.workdir,
        env={"HOME": HOME, "TZ": "UTC", "LANG": "C.UTF-8", **instance.env, **(env or {})},
        limits=limits,
        network=instance.network,
        purpose="grading",
        labels={"instance": instance.instance_id},
    )
    handle = await provider.create(spec, request_id=uuid.uuid4().hex)
    try:
        sandbox = GradingSandbox(provider, handle.sandbox_id, instance.workdir)
        try:
            await sandbox.must(["mkdir", "-p", HOME], "making a home")
            if instance.image_patch:
                await _change_tree(sandbox, instance.image_patch)
        except BudgetExceeded as over:
            raise VerifierError(f"a fresh sandbox is over its limits: {over.message}", kind="over_budget") from over
        yield sandbox
    finally:
        await provider.destroy(handle.sandbox_id)


async def _change_tree(sandbox: GradingSandbox, patch: bytes) -> None:
    """Make the image's tree the task's, as its last commit."""
    data = patch if patch.endswith(b"\n") else patch + b"\n"
    await sandbox.must(["git", "apply", "--index", "-"], "putting the row's bug into its image's tree", stdin=data)
    commit = ["git", "-c", "user.name=paddock", "-c", "user.email=paddock@localhost", "-c", "commit.gpgsign=false"]
    await sandbox.must([*commit, "commit", "--quiet", "--no-verify", "-m", "task"], "committing the row's bug")
