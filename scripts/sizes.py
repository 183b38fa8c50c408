"""Sizes law: no Python file over 500 lines, no function over 60. Prints each offender and exits 1."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60


def offenders(path: Path) -> Iterator[str]:
    text = path.read_text()
    lines = text.count("\n")
    if lines > MAX_FILE_LINES:
        yield f"{path}: {lines} lines, at most {MAX_FILE_LINES}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION_LINES}"


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        check=True,
        capture_output=True,
        text=True,
    )
    found = [line for name in listed.stdout.split() if Path(name).is_file() for line in offenders(Path(name))]
    print("\n".join(found) or "sizes: ok")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
