"""Applying a policy's patch inside the sandbox, as data, by the official chain.

Chain   `git apply`, `git apply --3way`, `git apply --reject`, `patch --batch --forward --fuzz=5`; a tree that a failed
        attempt has touched is restored first. When all fail, a patch whose reverse would apply counts as applied.
Restore tracked files from HEAD, and only those untracked ones removed that were not there before.
"""

from paddock.errors import VerifierError
from paddock.resources_servers.swe.grading.bench import Bench
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


async def apply(bench: Bench, patch: bytes) -> str | None:
    """Apply a patch; None when it is applied, else what the tools said of it."""
    data = patch if patch.endswith(b"\n") else patch + b"\n"
    done = await bench.run(CHAIN[0], stdin=data)
    _require(done)
    if done.ok:
        return None
    first = _said(done)
    untracked = await _untracked(bench)
    for command in CHAIN[1:]:
        await _restore(bench, untracked)
        done = await bench.run(command, stdin=data)
        if done.ok:
            return None
    if (await bench.run(REVERSE, stdin=data)).ok:
        return None
    return first


async def _restore(bench: Bench, untracked: frozenset[bytes]) -> None:
    await bench.must(("git", "reset", "--quiet", "--hard"), "restoring the tree")
    new = sorted(await _untracked(bench) - untracked)
    if new:
        await bench.remove([bench.below(path.decode("utf-8", "surrogateescape")) for path in new])


async def _untracked(bench: Bench) -> frozenset[bytes]:
    listed = await bench.must(("git", "ls-files", "--others", "-z"), "listing the tree")
    return frozenset(listed.split(b"\0")) - {b""}


def _require(done: ExecResult) -> None:
    if done.exit_code in _MISSING:
        raise VerifierError(f"the image has no git that runs: {_said(done)}", kind="git_missing", retryable=False)


def _said(done: ExecResult) -> str:
    return bytes(done.stdout).decode(errors="replace").strip()[-1000:]
