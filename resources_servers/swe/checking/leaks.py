"""What the image that an agent gets tells of the fix and its tests, found by content, wherever it lies.

Tests   a file with the bytes of a hidden test file, at any path; tiny ones (an empty `__init__.py`) tell nothing.
Fix     another file than the fixed one that has its distinctive lines: of the same name and at least half of them, or
        three of them and at least half; and, outside of the tree, other versions of a fixed file, as an installed
        package has.
History of the image before it is scrubbed is told by `check_scrubbed`; what scrubbing leaves refuses the image.
Inside  `find`, `sha256sum` and `grep` of the image, in a sandbox; nothing of it is trusted by grading.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from shlex import quote

from paddock.errors import VerifierError
from paddock.resources_servers.swe.checking.records import Finding, refusal, some, warning
from paddock.resources_servers.swe.checking.telling import FixedFile
from paddock.resources_servers.swe.grading.bench import Bench
from paddock.sandbox.images.build import check_scrubbed

SMALLEST_TEST = 48
"""Bytes of a test file that can tell something."""
_PATTERNS = "/tmp/lines"  # noqa: S108 - inside the sandbox
_EVERYWHERE = r"find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp \) -prune -o -type f"
_SEARCH_TIMEOUT_S = 600.0
_READ_AT_MOST = 100
"""Files that are read whole; more say no more."""


async def check_history(bench: Bench, hidden_paths: Sequence[str]) -> list[Finding]:
    """What lies in the image as it is: told only, an agent gets it scrubbed."""
    lines = await _lines(bench, check_scrubbed(bench.workdir, hidden_paths))
    # An empty reflog or its like tells nothing; a commit that it names is a line of its own.
    lines = [line for line in lines if not line.startswith("left behind: ")]
    if not lines:
        return []
    return [warning("image_unscrubbed", f"the image has what agents get without: {some(lines, 3)}")]


async def check_tests(bench: Bench, tests: Mapping[str, bytes]) -> list[Finding]:
    """`tests`: hidden files by path below the workdir."""
    wanted: dict[str, str] = {}
    for path, data in tests.items():
        if len(data.strip()) >= SMALLEST_TEST:
            wanted[hashlib.sha256(data).hexdigest()] = path
    if not wanted:
        return []
    sizes = sorted({len(data) for data in tests.values() if len(data.strip()) >= SMALLEST_TEST})
    named = " -o ".join(f"-size {size}c" for size in sizes)
    hits: dict[str, list[str]] = {}
    for line in await _lines(bench, rf"{_EVERYWHERE} \( {named} \) -exec sha256sum {{}} +"):
        digest, _, place = line.lstrip("\\").partition("  ")
        if digest in wanted:
            hits.setdefault(wanted[digest], []).append(place)
    return [
        refusal(
            "test_in_image",
            f"the image holds the hidden test {path}: {some(sorted(places))}",
            "take it out of the base tree or of what is installed; it is no test that an agent has not seen",
        )
        for path, places in sorted(hits.items())
    ]


async def check_fix(bench: Bench, files: Sequence[FixedFile], lines: Sequence[str]) -> list[Finding]:
    """`lines`: the fix's distinctive ones."""
    base = {bench.below(file.path): await bench.read(bench.below(file.path)) for file in files}
    others = {place: base[bench.below(file.path)] for file in files for place in await _versions(bench, file)}
    places = dict.fromkeys([*others, *await _holding(bench, files, lines)])
    told: list[str] = []
    versions: list[str] = []
    for place in [one for one in places if one not in base][:_READ_AT_MOST]:
        data = await bench.read(place) or b""
        if _tells(place, data.decode(errors="replace"), files, lines):
            told.append(place)
        elif place in others and data != others[place] and not PurePosixPath(place).is_relative_to(bench.workdir):
            versions.append(place)
    found = []
    if told:
        found.append(
            refusal(
                "fix_in_image",
                f"the image holds the fix: {some(await _named(bench, told))}",
                "take it out of the image; install the tree itself, and no later release of it or of what vendors it",
            )
        )
    if versions:
        found.append(
            warning(
                "other_version",
                f"the image holds another version of a fixed file: {some(await _named(bench, versions))}",
                "see that it is older than the fix, or another package's",
            )
        )
    return found


def _tells(place: str, text: str, files: Sequence[FixedFile], lines: Sequence[str]) -> bool:
    namesakes = [file for file in files if PurePosixPath(place).name == PurePosixPath(file.path).name]
    own = [line for line in lines if any(line in file.added for file in namesakes)] if namesakes else lines
    count = sum(line in text for line in own)
    return count >= (1 if namesakes else 3) and 2 * count >= len(own)


async def _versions(bench: Bench, file: FixedFile) -> list[str]:
    """Files elsewhere whose last folders and name are the fixed file's."""
    parts = PurePosixPath(file.path).parts
    tail = "/".join(parts[-2:]) if len(parts) > 1 else f"site-packages/{parts[0]}"
    return await _lines(bench, f"{_EVERYWHERE} -path {quote('*/' + tail)} -print")


async def _holding(bench: Bench, files: Sequence[FixedFile], lines: Sequence[str]) -> list[str]:
    """Files of the same kinds with any distinctive line."""
    kinds = sorted({PurePosixPath(file.path).suffix for file in files} - {""})
    if not lines or not kinds:
        return []
    await bench.write(_PATTERNS, "".join(f"{line}\n" for line in lines).encode())
    named = " -o ".join(f"-name {quote('*' + kind)}" for kind in kinds)
    return await _lines(bench, rf"{_EVERYWHERE} -size -4096k \( {named} \) -exec grep -lF -f {_PATTERNS} -- {{}} +")


async def _named(bench: Bench, places: Sequence[str]) -> list[str]:
    """Places with the installed distribution that each belongs to, where one is called like its folder."""
    named = []
    for place in places:
        before, found, after = place.partition("/site-packages/")
        top = after.split("/", maxsplit=1)[0].removesuffix(".py").lower()
        dists = await _lines(bench, f"ls -1 {quote(before + found)} | grep -E '[.](dist|egg)-info$'") if found else []
        own = [one for one in dists if one.split("-", maxsplit=1)[0].lower() == top]
        named.append(f"{place} ({own[0].rsplit('.', 1)[0]})" if own else place)
    return named


async def _lines(bench: Bench, script: str) -> list[str]:
    done = await bench.run(("/bin/sh", "-s"), stdin=script.encode(), timeout_s=_SEARCH_TIMEOUT_S, merge=False)
    said = bytes(done.stderr).decode(errors="replace")
    # `find` also ends with 1 when it passed over something, `grep` when it found nothing.
    if done.killed_by is not None or done.exit_code > 1 or "not found" in said:
        raise VerifierError(f"the image could not be searched: {said.strip()[-300:]}", kind="search_failed")
    return bytes(done.stdout).decode(errors="replace").splitlines()
