"""opencode's `glob` and `grep` over programs that any sandbox has: find and grep; git, where it is, for ignores.

Order   by path. The program's own is that of ripgrep's threads, which differs from run to run.
Ignored what git ignores by its patterns, tracked or not, in a repository; `.ignore` and `.rgignore` files are not read.
Lines   keep their line end, as the program shows them; a line over 2000 UTF-16 units is cut.
Errors  ToolError in the program's words: expressions that ripgrep refuses, a folder that is not there.
"""

from collections.abc import Iterator, Sequence
from posixpath import dirname
from typing import NamedTuple

from paddock.harness import Workspace
from paddock.harnesses.opencode.errors import ToolError
from paddock.harnesses.opencode.globs import Glob, GlobError, list_files
from paddock.harnesses.opencode.regexes import RegexError, to_posix

FAILED = "ripgrep execution failed"
NONE = "No files found"
_WALK = r"""
cd -- "$1" || exit 3
find . -name .git -prune -o -type d -print0 >"$2.d" 2>/dev/null
find . -name .git -prune -o -type f -print0 >"$2.f" 2>/dev/null
cat "$2.d" "$2.f" | git -c safe.directory='*' check-ignore -z --stdin --no-index >"$2.i" 2>/dev/null
{ cat "$2.d"; printf '\0'; cat "$2.f"; printf '\0'; cat "$2.i"; } >"$2"
rm -f "$2.d" "$2.f" "$2.i"
"""
_GREP = r"""
cd -- "$1" || exit 3
out=$2 pattern=$3 most=$4 case=$5 width=$6
if printf 'a\n' | grep -Iq a 2>/dev/null; then text=-I; else text=; fi
export LC_ALL=C.UTF-8
set -f
IFS='
'
set -- $text $case -e "$pattern" -- /dev/null $(cat)
grep -HnE "$@" 2>/dev/null | head -n "$most" | cut -b "-$width" >"$out"
"""
_ENDS = r"""
cd -- "$1" || exit 3
shift
for file; do
    [ -z "$(tail -c 1 -- "$file")" ] || printf '%s %s\0' "$(grep -c '' -- "$file")" "$file"
done
"""
RECORD_BYTES = 65536
"""Of a matching line as the program reads it from ripgrep."""

CHUNK_CHARS = 100_000
"""Of file names that one grep is given."""


class SearchLimits(NamedTuple):
    matches: int
    line_units: int


class _Match(NamedTuple):
    path: str
    line: int
    text: str


class Searcher:
    """Runs the searches of one rollout."""

    def __init__(self, workspace: Workspace, limits: SearchLimits, timeout_s: float | None) -> None:
        self._workspace = workspace
        self._limits = limits
        self._timeout_s = timeout_s
        self._scratches = 0

    async def glob(self, folder: str, pattern: str) -> str:
        paths = await self._files(folder, pattern, hidden=False)
        if not paths:
            return NONE
        most = self._limits.matches
        lines = [_below(folder, path) for path in paths[:most]]
        if len(lines) == most:
            note = f"showing first {most} results. Consider using a more specific path or pattern."
            lines += ["", f"(Results are truncated: {note})"]
        return "\n".join(lines)

    async def grep(self, folder: str, pattern: str, include: str) -> str:
        try:
            regex = to_posix(pattern)
        except RegexError as error:
            raise ToolError(str(error)) from error
        files = await self._files(folder, include, hidden=True)
        if regex.never or not files:
            return NONE
        matches = await self._matches(folder, files, regex.pattern, ignore_case=regex.ignore_case)
        return _grepped(folder, matches, self._limits) if matches else NONE

    async def _files(self, folder: str, glob: str, *, hidden: bool) -> list[str]:
        try:
            wanted = Glob(glob)
        except GlobError:
            return []
        scratch = self._scratch()
        await self._run(_WALK, folder, scratch)
        sections = (await self._taken(scratch)).split(b"\0\0") if folder else []
        folders, files, ignored = (_paths(section) for section in [*sections, b"", b"", b""][:3])
        return list(list_files(wanted, folders, sorted(files), frozenset(ignored), hidden=hidden))

    async def _matches(self, folder: str, files: Sequence[str], pattern: str, *, ignore_case: bool) -> list[_Match]:
        scratch = self._scratch()
        width = str(RECORD_BYTES + 4096)
        matches: list[_Match] = []
        for chunk in _chunks(files):
            most = str(self._limits.matches - len(matches))
            names = "\n".join(chunk).encode(errors="surrogateescape")
            await self._run(_GREP, folder, scratch, pattern, most, "-i" if ignore_case else "", width, stdin=names)
            paths = frozenset(chunk)
            records = [_match(line, paths) for line in (await self._taken(scratch)).split(b"\n") if line]
            matches += [match for match in records if match is not None]
            if len(matches) >= self._limits.matches:
                break
        ends = await self._unended(folder, sorted({match.path for match in matches}))
        return [
            match._replace(text=match.text + ("" if ends.get(match.path) == match.line else "\n")) for match in matches
        ]

    async def _unended(self, folder: str, paths: Sequence[str]) -> dict[str, int]:
        """The number of the last line of each file whose last line does not end."""
        if not paths:
            return {}
        output = await self._run(_ENDS, folder, *paths)
        ends = (item.decode(errors="surrogateescape").partition(" ") for item in output.split(b"\0") if item)
        return {path: int(count) for count, _, path in ends}

    async def _run(self, script: str, *words: str, stdin: bytes = b"") -> bytes:
        done = await self._workspace.exec(["sh", "-c", script, "sh", *words], stdin=stdin, timeout_s=self._timeout_s)
        if done.timed_out or done.refused or done.exit_code == 3:
            raise ToolError(FAILED)
        return done.output

    def _scratch(self) -> str:
        self._scratches += 1
        return f"/tmp/.search-{self._scratches}"  # noqa: S108 - in the sandbox

    async def _taken(self, scratch: str) -> bytes:
        data = await self._workspace.read(scratch)
        await self._workspace.exec(["rm", "-f", scratch])
        return data


def _chunks(files: Sequence[str]) -> Iterator[list[str]]:
    """As many as a command may be given; names with a line end in them are left out."""
    chunk: list[str] = []
    size = 0
    for path in files:
        if "\n" in path:
            continue
        if size > CHUNK_CHARS:
            yield chunk
            chunk, size = [], 0
        chunk.append(path)
        size += len(path) + 1
    if chunk:
        yield chunk


def _paths(section: bytes) -> list[str]:
    names = (name.decode(errors="surrogateescape") for name in section.split(b"\0"))
    return [name.removeprefix("./") for name in names if name not in ("", ".")]


def _match(line: bytes, paths: frozenset[str]) -> _Match | None:
    """From `path:number:text`, where the path may hold colons; None: a line of a binary file."""
    if len(line) > RECORD_BYTES:
        raise ToolError(f"Ripgrep JSON record exceeded {RECORD_BYTES} bytes")
    if b"\0" in line or line.startswith(b"grep: "):
        return None
    parts = line.split(b":")
    for cut in range(1, len(parts) - 1):
        path = b":".join(parts[:cut]).decode(errors="surrogateescape")
        if path in paths and parts[cut].isdigit():
            try:
                return _Match(path, int(parts[cut]), b":".join(parts[cut + 1 :]).decode())
            except UnicodeDecodeError as error:
                raise ToolError("Invalid ripgrep match output") from error
    return None


def _grepped(folder: str, matches: Sequence[_Match], limits: SearchLimits) -> str:
    full = len(matches) == limits.matches
    lines = [f"Found {len(matches)} matches{' (more matches available)' if full else ''}"]
    last = None
    for match in matches:
        if match.path != last:
            lines += ([""] if last is not None else []) + [f"{_below(folder, match.path)}:"]
            last = match.path
        text = match.text.removeprefix("\ufeff") if match.line == 1 else match.text
        lines.append(f"  Line {match.line}: {_shortened(text, limits.line_units)}")
    if full:
        lines += ["", "(Results truncated. Consider using a more specific path or pattern.)"]
    return "\n".join(lines)


def _shortened(text: str, units: int) -> str:
    encoded = text.encode("utf-16-le", "surrogatepass")
    if len(encoded) <= 2 * units:
        return text
    return encoded[: 2 * units].decode("utf-16-le", "ignore") + "..."


def _below(folder: str, path: str) -> str:
    return f"{folder.rstrip('/')}/{path}"


def folder_of(path: str, *, is_folder: bool) -> str:
    """Where grep searches: a path that is no folder means the folder that it lies in."""
    return path if is_folder else dirname(path)
