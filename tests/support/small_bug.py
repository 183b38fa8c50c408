"""A row of the `swe` environment whose bug is one sign: its image is made of this machine's programs, its tests take a
moment. For tests of what happens to many rollouts.

`put_image` makes the image, `config` has two agents: `fixer` mends it, `idler` leaves it; both take their time before.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from paddock.testing.sandboxes import WORKDIR, repository_image, store_of
from paddock.types import JsonObject

IMAGE = "small-bug"
REWARDS = {"fixer": 1.0, "idler": 0.0}
"""What each agent is paid, if nothing goes wrong."""
_TOOLS = ("comm", "mktemp", "xargs")
"""Of this machine, which a scrub of the image asks for: a busybox may lack the first."""
_WRONG, _RIGHT = "    return a - b", "    return a + b"
_PLACE = "test_calc.py"
_CHECKS = f"""
import calc

for name, good in (("adds", calc.add(1, 2) == 3), ("zero", calc.add(1, 0) == 1)):
    print("PASSED" if good else "FAILED", "{_PLACE}::" + name)
"""
_FIX = f"""diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-{_WRONG}
+{_RIGHT}
"""


def put_image(home: Path) -> None:
    """FileNotFoundError, SandboxError: this machine lacks the programs."""
    put_repository(home, IMAGE, {"calc.py": f"def add(a, b):\n{_WRONG}\n", "README": "A calculator.\n"})


def put_repository(home: Path, name: str, files: Mapping[str, str], *, outside: Mapping[str, str] = {}) -> None:
    """An image of a repository with `files`, and `outside`: files by absolute path, with all that grading needs.
    FileNotFoundError, SandboxError: this machine lacks the programs."""
    store = store_of(home)
    base = repository_image(store, f"{name}-base", files, outside=outside)

    def fill(tree: Path) -> None:
        (tree / "usr/bin").mkdir(parents=True)
        for tool in _TOOLS:
            shutil.copy(shutil.which(tool, path="/usr/bin:/bin") or "", tree / "usr/bin" / tool)
        store.own([tree, *tree.rglob("*")])

    if not store.has(name):
        store.add(name, fill, base=base, workdir=WORKDIR)


def row(agent: str) -> JsonObject:
    return {
        "instance_id": "small__bug-1",
        "responses_create_params": {"input": []},
        "agent_ref": {"name": agent},
        "problem_statement": "add(1, 2) gives -1.",
        "image": IMAGE,
        "workdir": WORKDIR,
        "patch": _FIX,
        "test_files": {_PLACE: _CHECKS},
        "test_command": f"python3 {_PLACE}",
        "log_parser": "parse_log_pytest",
        "FAIL_TO_PASS": [f"{_PLACE}::adds"],
        "PASS_TO_PASS": [f"{_PLACE}::zero"],
    }


def write_rows(file: Path) -> None:
    file.write_bytes(b"".join(orjson.dumps(row(agent)) + b"\n" for agent in REWARDS))


def config(*, work_s: float, sandbox: Mapping[str, Any], gradings: Mapping[str, Any]) -> JsonObject:
    """`work_s`: seconds that a command of each agent takes; `sandbox`, `gradings`: blocks of sandboxes."""
    block: JsonObject = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy"},
        "limits": {"memory_mib": 256},
        "harness": "script",
        "sandbox": sandbox,
    }
    work = f"sleep {work_s:g}"
    commands = {"fixer": [work, f"sed -i 's/{_WRONG}/{_RIGHT}/' calc.py"], "idler": [work]}
    agents = {name: {"agents": {"swe": {**block, "harness_config": {"commands": commands[name]}}}} for name in REWARDS}
    environment = {"resources_servers": {"swe": {"sandbox": gradings}}}
    return {"environment": environment, **agents, "policy": {"models_servers": {"replay": {}}}}
