"""What the image that an agent gets holds of the fix and its tests, found by content, wherever it lies.

Tests   a file with the bytes of a hidden test file, at any path; tiny ones (an empty `__init__.py`) tell nothing.
Fix     another file than the fixed one that has its distinctive lines: of the same name and at least half of them, or
        three of them and at least half; and, outside of the tree, other versions of a fixed file, as an installed
        package has.
History of the image before it is scrubbed is found by `check_scrubbed`; what scrubbing leaves refuses the image.
Inside  `find`, `sha256sum` and `grep` of the image, in a sandbox; nothing of it is trusted by grading.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from shlex import quote

from paddock.errors import VerifierError
from paddock.resources_servers.swe.checks.records import CheckFinding, refusal, some, warning
from paddock.resources_servers.swe.checks.visible_text import FixedFile
from paddock.resources_servers.swe.grading.sandbox import GradingSandbox
from paddock.sandbox.images.build import check_scrubbed

SMALLEST_TEST = 48
"""Bytes of a test file that can tell something."""
_PATTERNS = "/tmp/lines"  # noqa: S108 - inside the sandbox
_EVERYWHERE = r"find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp \) -prune -o -type f"
_SEARCH_TIMEOUT_S = 600.0
_READ_AT_MOST = 100
"""Files that are read whole; more say no more."""


async def check_history(sandbox: GradingSandbox, hidden_paths: Sequence[str]) -> list[CheckFinding]:
    """Warn of what lies in the image as it is; an agent gets it scrubbed."""
    lines = await _lines(sandbox, check_scrubbed(sandbox.workdir, hidden_paths))
    # An empty reflog or its like tells nothing; a commit that it names is a line of its own.
    lines = [line for line in lines if not line.startswith("left behind: ")]
    if not lines:
        return []
    return [warning("image_unscrubbed", f"the image has what agents get without: {some(lines, 3)}")]


async def check_tests(sandbox: GradingSandbox, tests: Mapping[str, bytes]) -> list[CheckFinding]:
    """Find hidden tests in the image. `tests` are their contents by path below the workdir."""
    wanted: dict[str, str] = {}
    for path, data in tests.items():
        if len(data.strip()) >= SMALLEST_TEST:
            wanted[hashlib.sha256(data).hexdigest()] = path
    if not wanted:
        return []
    sizes = sorted({len(data) for data in tests.values() if len(data.strip()) >= SMALLEST_TEST})
    named = " -o ".join(f"-size {size}c" for size in sizes)
    hits: dict[str, list[str]] = {}
    for line in await _lines(sandbox, rf"{_EVERYWHERE} \( {named} \) -exec sha256sum {{}} +"):
        digest, _, file = line.lstrip("\\").partition("  ")
        if digest in wanted:
            hits.setdefault(wanted[digest], []).append(file)
    return [
        refusal(
            "test_in_image",
            f"the image holds the hidden test {path}: {some(sorted(places))}",
            "take it out of the base tree or of what is installed; it is no test that an agent has not seen",
        )
        for path, places in sorted(hits.items())
    ]


async def check_fix(sandbox: GradingSandbox, files: Sequence[FixedFile], lines: Sequence[str]) -> list[CheckFinding]:
    """Find copies of the fix in the image. `lines` are the fix's distinctive ones."""
    base = {sandbox.below(file.path): await sandbox.read(sandbox.below(file.path)) for file in files}
    others = {path: base[sandbox.below(file.path)] for file in files for path in await _versions(sandbox, file)}
    places = dict.fromkeys([*others, *await _files_with_lines(sandbox, files, lines)])
    copies: list[str] = []
    versions: list[str] = []
    for path in [path for path in places if path not in base][:_READ_AT_MOST]:
        data = await sandbox.read(path) or b""
        if _holds_fix(path, data.decode(errors="replace"), files, lines):
            copies.append(path)
        elif path in others and data != others[path] and not PurePosixPath(path).is_relative_to(sandbox.workdir):
            versions.append(path)
    findings = []
    if copies:
        findings.append(
            refusal(
                "fix_in_image",
                f"the image holds the fix: {some(await _with_owners(sandbox, copies))}",
                "take it out of the image; install the tree itself, and no later release of it or of what vendors it",
            )
        )
    if versions:
        findings.append(
            warning(
                "other_version",
                f"the image holds another version of a fixed file: {some(await _with_owners(sandbox, versions))}",
                "see that it is older than the fix, or another package's",
            )
        )
    return findings


def _holds_fix(path: str, text: str, files: Sequence[FixedFile], lines: Sequence[str]) -> bool:
    namesakes = [file for file in files if PurePosixPath(path).name == PurePosixPath(file.path).name]
    own = [line for line in lines if any(line in file.added for file in namesakes)] if namesakes else lines
    count = sum(line in text for line in own)
    return count >= (1 if namesakes else 3) and 2 * count >= len(own)


async def _versions(sandbox: GradingSandbox, file: FixedFile) -> list[str]:
    """Find files elsewhere whose last folders and name are the fixed file's."""
    parts = PurePosixPath(file.path).parts
    tail = "/".join(parts[-2:]) if len(parts) > 1 else f"site-packages/{parts[0]}"
    return await _lines(sandbox, f"{_EVERYWHERE} -path {quote('*/' + tail)} -print")


async def _files_with_lines(sandbox: GradingSandbox, files: Sequence[FixedFile], lines: Sequence[str]) -> list[str]:
    """Find files of the same kinds with any distinctive line."""
    kinds = sorted({PurePosixPath(file.path).suffix for file in files} - {""})
    if not lines or not kinds:
        return []
    await sandbox.write(_PATTERNS, "".join(f"{line}\n" for line in lines).encode())
    named = " -o ".join(f"-name {quote('*' + kind)}" for kind in kinds)
    return await _lines(sandbox, rf"{_EVERYWHERE} -size -4096k \( {named} \) -exec grep -lF -f {_PATTERNS} -- {{}} +")


async def _with_owners(sandbox: GradingSandbox, paths: Sequence[str]) -> list[str]:
    """Add to each place the installed distribution that it belongs to, where one is called like its folder."""
    named = []
    for path in paths:
        before, sep, after = path.partition("/site-packages/")
        top = after.split("/", maxsplit=1)[0].removesuffix(".py").lower()
        dists = await _lines(sandbox, f"ls -1 {quote(before + sep)} | grep -E '[.](dist|egg)-info$'") if sep else []
        own = [dist for dist in dists if dist.split("-", maxsplit=1)[0].lower() == top]
        named.append(f"{path} ({own[0].rsplit('.', 1)[0]})" if own else path)
    return named


async def _lines(sandbox: GradingSandbox, script: str) -> list[str]:
    done = await sandbox.run(("/bin/sh", "-s"), stdin=script.encode(), timeout_s=_SEARCH_TIMEOUT_S, merge=False)
    errors = bytes(done.stderr).decode(errors="replace")
    # `find` also ends with 1 when it passed over something, `grep` when it found nothing.
    if done.killed_by is not None or done.exit_code > 1 or "not found" in errors:
        raise VerifierError(f"the image could not be searched: {errors.strip()[-300:]}", kind="search_failed")
    return bytes(done.stdout).decode(errors="replace").splitlines()
