"""How a policy's patch is applied inside the sandbox, as data, by the official chain of tools.

Chain   `git apply`, `git apply --3way`, `git apply --reject`, `patch --batch --forward --fuzz=5`; a tree that a failed
        attempt has touched is restored first. When all fail, a patch whose reverse would apply counts as applied.
Restore tracked files from HEAD, and only those untracked ones removed that were not there before.
"""

from paddock.errors import VerifierError
from paddock.resources_servers.swe.grading.sandbox import GradingSandbox
from paddock.sandbox import ExecResult

GIT_APPLY = ("git", "apply", "--verbose")
CHAIN = (
    (*GIT_APPLY, "-"),
    (*GIT_APPLY, "--3way", "-"),
    (*GIT_APPLY, "--reject", "-"),
    ("patch", "--batch", "--forward", "--fuzz=5", "-p1"),
)
REVERSE = ("git", "apply", "--check", "--reverse", "-")
_MISSING = (126, 127)


async def apply(sandbox: GradingSandbox, patch: bytes) -> str | None:
    """Apply a patch; None when it is applied, else what the tools said of it."""
    data = patch if patch.endswith(b"\n") else patch + b"\n"
    done = await sandbox.run(CHAIN[0], stdin=data)
    _require(done)
    if done.ok:
        return None
    first = _output(done)
    untracked = await _untracked(sandbox)
    for command in CHAIN[1:]:
        await _restore(sandbox, untracked)
        done = await sandbox.run(command, stdin=data)
        if done.ok:
            return None
    if (await sandbox.run(REVERSE, stdin=data)).ok:
        return None
    return first


async def _restore(sandbox: GradingSandbox, untracked: frozenset[bytes]) -> None:
    await sandbox.must(("git", "reset", "--quiet", "--hard"), "restoring the tree")
    new = sorted(await _untracked(sandbox) - untracked)
    if new:
        await sandbox.remove([sandbox.below(path.decode("utf-8", "surrogateescape")) for path in new])


async def _untracked(sandbox: GradingSandbox) -> frozenset[bytes]:
    listed = await sandbox.must(("git", "ls-files", "--others", "-z"), "listing the tree")
    return frozenset(listed.split(b"\0")) - {b""}


def _require(done: ExecResult) -> None:
    if done.exit_code in _MISSING:
        raise VerifierError(f"the image has no git that runs: {_output(done)}", kind="git_missing", retryable=False)


def _output(done: ExecResult) -> str:
    return bytes(done.stdout).decode(errors="replace").strip()[-1000:]
