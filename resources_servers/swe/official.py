"""The one door to the `swebench` package: its parsers, its rules from log to verdict, its names.

Version 5.0.2, pinned: rules have changed between versions, and a verdict must not change with an upgrade.
Install the extra `swe`, or `pip install --no-deps swebench==5.0.2`: what grades needs of what the package declares
        nothing but unidiff. How its modules are imported, and logs read: `swebench_logs`.
Errors  VerifierError (not retried) where the package is missing or of another version.
"""

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Literal, NamedTuple

from paddock.errors import RowError, VerifierError
from paddock.resources_servers.swe import swebench_logs
from paddock.resources_servers.swe.swebench_logs import ExpectedTests

VERSION = "5.0.2"
INSTALL = f"pip install 'paddock[swe]', or, smaller, pip install --no-deps swebench=={VERSION}"
START, END, EXIT_CODE = ">>>>> Start Test Output", ">>>>> End Test Output", ">>>>> Test Exit Code"
MARKER = ">>>>> "
"""All markers of the official log start so."""
PASSING = ("PASSED", "XFAIL")
"""Statuses of a test that passed."""
Status = Literal["PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL"]


class OfficialReport(NamedTuple):
    """The official report on a status map."""

    resolved: bool
    status: str
    """RESOLVED_FULL, RESOLVED_PARTIAL or RESOLVED_NO."""
    fail_to_pass: Mapping[str, bool]
    pass_to_pass: Mapping[str, bool]
    """Success by test id."""


@cache
def _modules() -> dict[str, ModuleType]:
    try:
        package = importlib.import_module("swebench")
    except ImportError as error:
        raise VerifierError(
            f"grading needs the swebench package: {INSTALL}", kind="swebench_missing", retryable=False
        ) from error
    version = getattr(package, "__version__", "unknown")
    if version != VERSION:
        raise VerifierError(
            f"grading needs swebench {VERSION}, found {version}: {INSTALL}", kind="swebench_version", retryable=False
        )
    return swebench_logs.modules()


def require() -> None:
    """Raise VerifierError now where grading would raise it later."""
    _modules()


def require_parser(parser: str, key: str = "log_parser") -> None:
    """RowError for a parser that the package has not; it names `key` of the row, and the parsers there are."""
    _modules()
    registry = swebench_logs.parsers()
    if parser not in registry:
        raise RowError(
            f"{key}: no parser {parser!r} in swebench {VERSION}; there are: {', '.join(sorted(registry))}",
            kind="log_parser_unknown",
            stage="seed",
        )


def parser_of(repo: str) -> str | None:
    """Return the name of a Python repository's parser; None: the package knows none."""
    module = vars(_modules()["log_parsers.python"])
    parser = module["MAP_REPO_TO_PARSER_PY"].get(repo)
    return next((name for name, value in sorted(module.items()) if value is parser and parser is not None), None)


def is_test_path(path: str) -> bool:
    """False for the files of a test patch that are data: never named on a test command."""
    extensions: list[str] = vars(_modules()["constants"])["NON_TEST_EXTS"]
    return not path.endswith(tuple(extensions))


def judge(expected: ExpectedTests, status: Mapping[str, str]) -> OfficialReport:
    """Apply the official rule to a status map."""
    grading, constants = vars(_modules()["grading"]), vars(_modules()["constants"])
    gold = {"FAIL_TO_PASS": list(expected.fail_to_pass), "PASS_TO_PASS": list(expected.pass_to_pass)}
    kind = constants["EvalType"](expected.eval_type)
    report = grading["get_eval_tests_report"](dict(status), gold, eval_type=kind)
    summary: str = grading["get_resolution_status"](report)
    return OfficialReport(
        resolved=summary == constants["ResolvedStatus"].FULL.value,
        status=summary,
        fail_to_pass=_table(report["FAIL_TO_PASS"]),
        pass_to_pass=_table(report["PASS_TO_PASS"]),
    )


def status_of(test: str, status: Mapping[str, str]) -> str | None:
    """The status that the official rule gives a listed test; None: the run does not tell.

    Ids that were published cut inside a parameter (`test_a[log(x`) stand for all that begin so: where these differ, the
    official rule counts the test as failed, and the status is that of one which did not pass.
    """
    key = vars(_modules()["grading"])["_resolve_case"](test, dict(status))
    if key is not None:
        return status[key]
    if not is_cut(test):
        return None
    return next((word for name, word in status.items() if name.startswith(test) and word not in PASSING), None)


def is_cut(test: str) -> bool:
    """Say whether an id was published cut inside a parameter; the runs report a longer one."""
    return test.count("[") > test.count("]")


def whole_log(output: str, exit_code: int) -> str:
    """Make an official log of the output of a test command."""
    return f"{START}\n{output}\n{END}\n{EXIT_CODE}: {exit_code}\n"


def _table(part: Mapping[str, Sequence[str]]) -> dict[str, bool]:
    return {**dict.fromkeys(part["success"], True), **dict.fromkeys(part["failure"], False)}
