"""swebench's way from a log to statuses, with nothing but the standard library and that package.

Import  the package `swebench.harness` imports docker, modal and datasets when it is entered; so its modules are
        imported below an empty package of that name, which is taken away again: no `.env` is read, nothing is started.
Process run by itself it serves one call, JSON in and out, and the kernel ends it when the processor's time that it was
        given is over: `grading.log_process` starts it. It takes 0.05 s to start.
Errors  of a parser none: code under test wrote the log, and what no parser can read tells of no test. MemoryError and
        OSError are the machine's: the process ends with 1, and one line on stderr.
"""

import importlib
import json
import math
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class ExpectedTests(NamedTuple):
    """What a row says of its tests."""

    instance_id: str
    log_parser: str
    eval_type: str
    fail_to_pass: Sequence[str]
    pass_to_pass: Sequence[str]
    version: str = ""


@cache
def modules() -> dict[str, ModuleType]:
    """The package's modules, by name. ImportError: it is not there."""
    package = importlib.import_module("swebench")
    names = ("grading", "constants", "log_parsers", "log_parsers.python")
    if "swebench.harness" in sys.modules:
        return {name: importlib.import_module(f"swebench.harness.{name}") for name in names}
    bare = ModuleType("swebench.harness")
    bare.__path__ = [str(Path(str(package.__file__)).parent / "harness")]
    sys.modules["swebench.harness"] = bare
    try:
        return {name: importlib.import_module(f"swebench.harness.{name}") for name in names}
    finally:
        del sys.modules["swebench.harness"]


def parsers() -> dict[str, Any]:
    """The package's parsers by name: functions of a log, and of a specification, of which some read id and version."""
    registry: dict[str, Any] = vars(modules()["log_parsers"])["PARSER_REGISTRY"]
    return registry


def parse(parser: str, log: str, expected: ExpectedTests | None = None) -> dict[str, str]:
    """Status by test id; none where the parser fails over the log, as that of Django does over a line `FAIL:`."""
    try:
        status: dict[str, str] = parsers()[parser](log, expected)
    except (MemoryError, OSError):
        raise
    except Exception:  # noqa: BLE001 - of any kind
        return {}
    return status


def status_map(expected: ExpectedTests, log: str) -> tuple[dict[str, str], bool]:
    """The official way from a whole log (with markers and exit code) to a status map, and whether it counts."""
    # Read by the package in the locale's encoding: written in the same. Without a name, so that a kill leaves nothing.
    with tempfile.TemporaryFile("w", errors="replace", newline="") as file:
        file.write(log)
        file.flush()
        path = f"/proc/self/fd/{file.fileno()}"
        read = vars(modules()["grading"])["get_logs_eval"]
        try:
            result: tuple[dict[str, str], bool] = read(expected, path)
        except (MemoryError, OSError):
            raise
        except Exception:  # noqa: BLE001 - as in `parse`
            return {}, False
    return result


def statuses(expected: ExpectedTests, log: str, output: str) -> dict[str, str]:
    """Those of a whole log, else those of the output in it where the official way finds none."""
    return status_map(expected, log)[0] or parse(expected.log_parser, output, expected)


CALLS: dict[str, Callable[..., Any]] = {call.__name__: call for call in (parse, status_map, statuses)}
"""What the process does."""


def main() -> None:
    """Serve the one call that stdin holds."""
    request = json.load(sys.stdin)
    used_s = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used_s + request["cpu_s"]), resource.RLIM_INFINITY))
    first, *others = request["args"]
    given = ExpectedTests(*first) if isinstance(first, list) else first
    json.dump(CALLS[request["call"]](given, *others), sys.stdout)


if __name__ == "__main__":
    try:
        main()
    except (MemoryError, OSError) as lack:
        sys.exit(f"{type(lack).__name__}: {lack}")
