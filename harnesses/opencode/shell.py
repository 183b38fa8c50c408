"""opencode's `bash`: a new shell for each line, in the workdir or where the call says.

Output  both streams in order, without an exit code; a time limit is told in `<shell_metadata>`. Of a long output the
        tail is shown, by lines and bytes, and all of it lies in a file outside of the repository, named by its content:
        the program's name is random. Kills for memory and refusals are in the text, where the program knows none.
"""

from hashlib import sha256
from typing import NamedTuple

from paddock.harness import ExecOutput, Workspace

EMPTY = "(no output)"


class ShellLimits(NamedTuple):
    lines: int
    size_bytes: int
    folder: str
    """Where long outputs are put, in the sandbox."""


def worded(done: ExecOutput, timeout_ms: int) -> tuple[str, str]:
    """Return the output as text, and the notice that follows it."""
    text = done._replace(timed_out=False).text()
    if not done.timed_out:
        return text, ""
    notice = (
        f"shell tool terminated command after exceeding timeout {timeout_ms} ms. If this command is expected to take "
        "longer and is not waiting for interactive input, retry with a larger timeout value in milliseconds."
    )
    return text, f"\n\n<shell_metadata>\n{notice}\n</shell_metadata>"


async def shown(workspace: Workspace, text: str, limits: ShellLimits) -> str:
    """Return the text, or its tail and the name of the file with all of it."""
    tail = tail_of(text, limits)
    if tail == text:
        return text or EMPTY
    data = text.encode()
    path = f"{limits.folder}/tool_{sha256(data).hexdigest()[:16]}"
    await workspace.write(path, data)
    return f"...output truncated...\n\nFull output saved to: {path}\n\n{tail or EMPTY}"


def tail_of(text: str, limits: ShellLimits) -> str:
    """Keep whole lines from the end; of a last line that is too long, its end."""
    lines = text.split("\n")
    if len(lines) <= limits.lines and len(text.encode()) <= limits.size_bytes:
        return text
    tail: list[str] = []
    size = 0
    for line in reversed(lines[-limits.lines :]):
        needed = len(line.encode()) + bool(tail)
        if size + needed > limits.size_bytes:
            if not tail:
                tail.append(_end_of(line.encode(), limits.size_bytes))
            break
        tail.append(line)
        size += needed
    return "\n".join(reversed(tail))


def _end_of(data: bytes, size: int) -> str:
    start = len(data) - size
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode()
