"""Other forms of commands that run programs and tests, remove files or show changes, and near misses of them."""

import re
from typing import Any

from benchmarks.pivot_executed.pairs import Act, Neighbours, miss, shell

_PATH = r"[\w./@+-]+"
RUN = re.compile(rf"(?P<python>python3?) (?P<path>{_PATH}\.py)")
TESTS = re.compile(
    r"(?:python3? )?(?:\./|/testbed/)?tests/runtests\.py (?P<labels>[a-z][\w.]*(?: [a-z][\w.]*)*)(?P<rest>(?: -.*)?)"
)
REMOVE = re.compile(rf"rm(?: -\w+)? (?P<paths>{_PATH}(?: {_PATH})*)")
DIFF = re.compile(r"git diff(?: HEAD)?")


def runs(found: dict[str, Any], near: Neighbours) -> list[Act]:
    python, path = found["python"], found["path"]
    swapped = "python" if python == "python3" else "python3"
    others = [other for other in near.paths if other.endswith(".py") and other != path]
    return [
        miss("python swapped", f"{swapped} {path}"),
        shell("python ./", f"{python} ./{path.removeprefix('./')}"),
        shell("python whole path", f"{python} {near.workdir}/{path.removeprefix('./')}"),
        shell("python -u", f"{python} -u {path}"),
        shell("python -B", f"{python} -B {path}"),
        shell("python 2>&1 | head", f"{python} {path} 2>&1 | head -n 100"),
        shell("python 2>&1 | tail", f"{python} {path} 2>&1 | tail -n 100"),
        miss("python head -1", f"{python} {path} | head -n 1"),
        miss("PYTHONPATH", f"PYTHONPATH=. {python} {path}"),
        miss("cat script", f"cat {path}"),
        miss("python -m py_compile", f"{python} -m py_compile {path}"),
        *(miss("python other", f"{python} {other}") for other in others[:2]),
    ]


def tests(found: dict[str, Any], near: Neighbours) -> list[Act]:
    labels, rest = found["labels"], found["rest"]
    parent = labels.split()[0].rpartition(".")[0]
    acts = [
        shell("cd tests", f"cd tests && ./runtests.py {labels}{rest}"),
        shell("python runtests", f"python tests/runtests.py {labels}{rest}"),
        shell("./tests/runtests.py", f"./tests/runtests.py {labels}{rest}"),
        shell("runtests -v 2", f"python tests/runtests.py {labels}{rest} -v 2"),
        shell("runtests --parallel", f"python tests/runtests.py --parallel 1 {labels}{rest}"),
        shell("runtests | tail", f"python tests/runtests.py {labels}{rest} 2>&1 | tail -20"),
        miss("runtests other", f"python tests/runtests.py {'basic' if labels != 'basic' else 'or_lookups'}"),
        miss("runtests --failfast", f"python tests/runtests.py --failfast {labels}{rest}"),
        miss("runtests -k", f"python tests/runtests.py {labels}{rest} -k test_a"),
    ]
    return [*acts, miss("runtests parent", f"python tests/runtests.py {parent}")] if parent else acts


def diffs(found: dict[str, Any], near: Neighbours) -> list[Act]:
    return [
        shell("git diff HEAD", "git diff HEAD"),
        shell("git --no-pager diff", "git --no-pager diff"),
        shell("git diff .", "git diff -- ."),
        miss("git diff --stat", "git diff --stat"),
        miss("git diff -w", "git diff -w"),
        miss("git diff --cached", "git diff --cached"),
        miss("git status", "git status"),
        miss("git diff names", "git diff --name-only"),
    ]


def removals(found: dict[str, Any], near: Neighbours) -> list[Act]:
    paths = found["paths"].split()
    text = " ".join(paths)
    others = [path for path in near.paths if path not in paths][:1]
    return [
        shell("rm -f", f"rm -f {text}"),
        shell("rm -rf", f"rm -rf {text}"),
        shell("rm whole paths", f"rm {' '.join(f'{near.workdir}/{path}' for path in paths)}"),
        shell("rm turned", f"rm {' '.join(reversed(paths))}"),
        shell("rm each", " && ".join(f"rm {path}" for path in paths)),
        shell("git clean", f"git clean -fdq -- {text}"),
        shell("python remove", f"python3 -c \"import os; [os.remove(p) for p in '{text}'.split()]\""),
        miss("mv away", f"mkdir -p /tmp/away && mv {text} /tmp/away"),
        miss("truncate", f"for p in {text}; do : > $p; done"),
        *(miss("rm more", f"rm {text} {other}") for other in others),
        *(miss("rm other", f"rm {other}") for other in others),
        *([miss("rm fewer", f"rm {' '.join(paths[1:])}")] if len(paths) > 1 else []),
    ]
