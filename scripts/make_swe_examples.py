"""Writes the SWE server's example rows from the folders in `scripts/swe_examples`.

Source  one folder per instance: `instance.yaml`, `issue.md`, `gold.patch`, `lists.json` (test ids as the row's log
        parser reads them), `tests/` (the hidden files as they lie in the tree; a Python file ends in `.py.txt` here).
        `common.yaml` holds what the instances share. `wrong.patch` and `equivalent.patch` are for tests alone.
Output  resources_servers/swe/data/example.jsonl, the same bytes every time; `--stdout` prints them instead.
Errors  a key of an instance that is missing raises.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent / "swe_examples"
TARGET = Path(__file__).parents[1] / "resources_servers" / "swe" / "data" / "example.jsonl"

Json = dict[str, Any]


def row(folder: Path, common: Json) -> Json:
    own: Json = yaml.safe_load((folder / "instance.yaml").read_text())
    lists: Json = json.loads((folder / "lists.json").read_text())
    build = {key: own[key] for key in ("sdist", "sdist_sha256")}
    return {
        "instance_id": own["instance_id"],
        "repo": own["repo"],
        "licence": own["licence"],
        "responses_create_params": {"input": []},
        "problem_statement": (folder / "issue.md").read_text(),
        "image": own["instance_id"],
        "build": {"python": common["python"], **build, "pip": common["pip"], "install": common["install"]},
        "workdir": common["workdir"],
        "env": {},
        "network": common["network"],
        "patch": (folder / "gold.patch").read_text(),
        "test_files": dict(hidden_files(folder / "tests")),
        "test_command": " ".join([common["runner"], *own["tests"]]),
        "log_parser": common["log_parser"],
        "FAIL_TO_PASS": lists["fail_to_pass"],
        "PASS_TO_PASS": lists["pass_to_pass"],
    }


def hidden_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Path below the workdir, and text."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            yield name.removesuffix(".txt") if name.endswith(".py.txt") else name, path.read_text()


def all_rows() -> Iterator[Json]:
    common = yaml.safe_load((HERE / "common.yaml").read_text())
    for path in sorted(HERE.glob("*/instance.yaml")):
        yield row(path.parent, common)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the SWE server's example rows.")
    parser.add_argument("--stdout", action="store_true", help="print the rows instead of writing the file")
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in all_rows())
    if parser.parse_args().stdout:
        sys.stdout.write(text)
    else:
        TARGET.write_text(text, encoding="utf-8")
        print(f"{TARGET}: {text.count(chr(10))} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
