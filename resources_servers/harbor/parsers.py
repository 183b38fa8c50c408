"""Parsers of Terminal-Bench: what tests write, as passed and failed tests.

Source  terminal-bench 0.2.18, `parsers/`: `pytest` reads the short test summary, where a skipped test and an expected
        failure have passed; `swebench` and `mlebench` read what stands between their marks.
Errors  ValueError where the output has no results: by itself that is no 0.
"""

import re
from collections.abc import Callable, Mapping

_SUMMARY = re.compile(r"=+\s*short test summary info\s*=+", re.IGNORECASE)
_PASSED = ("PASSED", "XFAIL", "SKIPPED")
_FAILED = ("FAILED", "XPASS", "ERROR")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def _pytest(output: str) -> dict[str, bool]:
    parts = _SUMMARY.split(_COLOURS.sub("", output), maxsplit=1)
    if len(parts) < 2:
        raise ValueError("no short test summary: pytest did not run, or without -rA")
    tests: dict[str, bool] = {}
    for line in parts[1].splitlines():
        text = line.rpartition(" - ")[0] if line.startswith("FAILED") and " - " in line else line
        status, _, name = text.partition(" ")
        status = status.strip().strip(":")
        name = name.strip().split("::", 1)[-1]
        if name and status in (*_PASSED, *_FAILED):
            tests[name] = status in _PASSED
    return tests


def _between(start: str, end: str, passed: str, *, needed: bool) -> Callable[[str], dict[str, bool]]:
    def parse(output: str) -> dict[str, bool]:
        if needed and (start not in output or end not in output):
            raise ValueError(f"no {start!r} and {end!r} in the output")
        return {"tests": output.split(start, 1)[-1].rsplit(end, 1)[0].strip() == passed}

    return parse


PARSERS: Mapping[str, Callable[[str], dict[str, bool]]] = {
    "pytest": _pytest,
    "swebench": _between("SWEBench results starts here", "SWEBench results ends here", "PASSED", needed=True),
    "mlebench": _between(
        "MLEBench results starts here", "MLEBench results ends here", "ALL TESTS PASSED", needed=False
    ),
}
"""By `parser_name`."""


def solved(parser: str, output: str) -> dict[str, bool]:
    """Return the tests by name, each passed or not; ValueError where there are none."""
    tests = PARSERS[parser](output)
    if not tests:
        raise ValueError("no test has a result")
    return tests
