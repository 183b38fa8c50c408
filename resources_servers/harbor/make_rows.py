"""Rows of tasks folders or of a registry, one JSON line each on stdout: `python -m ...harbor.make_rows PLACE ...`.

Place    a task's folder, a folder of them, or a registry's JSON file (`registry`). `task_folder` is the path below
         `--root`, which is the server's `tasks_dir`; without it, below the working directory.
Stderr   folders that can't be run here, with the reason, and keys that no published version has.
"""

import argparse
import base64
import gzip
import io
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from paddock.errors import PaddockError
from paddock.resources_servers.harbor.folders import is_task, read_folder
from paddock.resources_servers.harbor.registry import registry_folders
from paddock.resources_servers.harbor.task import SolutionFiles, folder_digest
from paddock.types import JsonObject


def row_of(folder: Path, root: Path) -> JsonObject:
    """Make the row of a task's folder, which lies below `root`."""
    task = read_folder(folder)
    row: JsonObject = {
        "instance_id": folder.name,
        "responses_create_params": {"input": []},
        "task_folder": folder.resolve().relative_to(root.resolve()).as_posix(),
        "task_sha256": folder_digest(folder),
    }
    if task.solution is not None:
        row["solution"] = solution_to_wire(task.solution)
    return row


def solution_to_wire(solution: SolutionFiles) -> JsonObject:
    """Pack a published solution as `gold` reads it; equal files give equal bytes."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in solution.files:
            data = file.source.read_bytes()
            info = tarfile.TarInfo(file.path.lstrip("/"))
            info.size, info.mode = len(data), 0o755 if file.executable else 0o644
            archive.addfile(info, io.BytesIO(data))
    return {"archive": base64.b64encode(buffer.getvalue()).decode(), "argv": solution.argv, "env": solution.env}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print rows; returns 1 where there is none."""
    parser = argparse.ArgumentParser(prog="make_rows", description="Rows of Harbor and Terminal-Bench tasks.")
    parser.add_argument("places", nargs="+", type=Path, metavar="PLACE", help="a task, a folder of tasks, a registry")
    parser.add_argument(
        "--root", type=Path, default=Path(), help="the server's tasks_dir; default: the working directory"
    )
    parser.add_argument("--dataset", help="of a registry: NAME or NAME@VERSION; default: all of it")
    parser.add_argument("--checkouts", type=Path, help="of a registry: folder for its git sources, below --root")
    options = parser.parse_args(arguments)
    count = 0
    for folder in _folders(options):
        try:
            row = row_of(folder, options.root)
            unknown = read_folder(folder).unknown_keys
        except (PaddockError, ValueError) as error:
            sys.stderr.write(f"left out: {error}\n")
            continue
        if unknown:
            sys.stderr.write(f"{folder}: unknown keys, which change nothing: {', '.join(unknown)}\n")
        sys.stdout.write(orjson.dumps(row).decode() + "\n")
        count += 1
    return 0 if count else 1


def _folders(options: argparse.Namespace) -> Iterator[Path]:
    for place in options.places:
        if place.is_file():
            yield from registry_folders(place, options.dataset, options.checkouts or options.root / "checkouts")
        elif is_task(place):
            yield place
        else:
            yield from sorted(folder for folder in place.iterdir() if folder.is_dir() and is_task(folder))


if __name__ == "__main__":
    sys.exit(main())
