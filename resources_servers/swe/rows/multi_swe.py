"""Multi-SWE-bench rows: a pull request, three runs of its tests, a parser per repository in the publisher's package.

Source  ByteDance-Seed/Multi-SWE-bench: org, repo, number, base, fix_patch, test_patch, resolved_issues, {p2p,f2p,s2p,
        n2p}_tests as {name: {run, test, fix}}, run_result and test_patch_result. The tree is at /home/REPOSITORY.
Package multi-swe-bench has image, script and parser of each repository: `publishers.python` has the package.
Rule    all tests of the four lists pass, and none fails that passed before the fix: with the test patch, or without it
        where that run does not tell. Only the run with the fix is made; the row has what the other two said.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from paddock.resources_servers.swe.instance import LogReader, SweInstance
from paddock.resources_servers.swe.publishers import PublisherTools, describe, interpreter
from paddock.resources_servers.swe.rows.fields import field_error
from paddock.resources_servers.swe.rows.schema import TOOLS, Text, patch_bytes, place, validate

NAME = "Multi-SWE-bench"
HIDDEN = [f"/home/{name}" for name in ("fix.patch", "test.patch", "fix-run.sh", "test-run.sh")]
APPLIED = 'git() { case " $* " in *\' apply \'*) return 0 ;; esac; command git "$@"; }\nexport -f git'
"""Shell lines with which the publisher's script applies nothing: the grader has applied the patch, and placed tests."""


class MultiRun(BaseModel):
    """One run, as the row has it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    passed_tests: list[str] = []
    failed_tests: list[str] = []


class MultiBase(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    ref: str = ""
    sha: Text


class MultiIssue(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    title: str = ""
    body: str | None = None


class MultiRow(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    org: Text
    repo: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    number: int
    instance_id: str | None = None
    tag: str = ""
    number_interval: str = ""
    lang: str = ""
    title: str = ""
    body: str | None = None
    base: MultiBase
    resolved_issues: list[MultiIssue] = []
    fix_patch: Text
    test_patch: Text
    p2p_tests: dict[str, Any] = {}
    f2p_tests: dict[str, Any] = {}
    s2p_tests: dict[str, Any] = {}
    n2p_tests: dict[str, Any] = {}
    run_result: MultiRun
    test_patch_result: MultiRun


def read(row: Mapping[str, Any], tools: PublisherTools) -> SweInstance:
    """Read a Multi-SWE-bench row."""
    made = validate(MultiRow, row, NAME)
    targets = [*made.f2p_tests, *made.s2p_tests, *made.n2p_tests]
    if not targets:
        raise field_error("f2p_tests", "empty, and so are s2p_tests and n2p_tests: no test would tell the bug is gone")
    pull = {
        **{key: getattr(made, key) for key in ("org", "repo", "number", "tag", "number_interval", "lang")},
        "base_commit": {"ref": made.base.ref, "sha": made.base.sha},
    }
    patches = {"fix_patch": made.fix_patch, "test_patch": made.test_patch}
    profile = describe("python", "multi_profile", tools.python, pull={**pull, **patches})
    instance_id = made.instance_id or f"{made.org}__{made.repo}-{made.number}"
    workdir = f"/home/{made.repo}"
    named = {"image": profile["image"], **row, "instance_id": instance_id}
    parsed = {**pull, "fix_patch": "", "test_patch": ""}
    return SweInstance(
        **place(named, "multi_swe", workdir).fields(),
        instance_id=instance_id,
        dataset="multi_swe",
        repo=f"{made.org}/{made.repo}",
        problem_statement=_statement(made),
        workdir=workdir,
        gold_patch=patch_bytes(row, "fix_patch"),
        test_patch=patch_bytes(row, "test_patch"),
        test_tools={f"{TOOLS}/fix-run.sh": profile["script"].encode()},
        test_command=f"{APPLIED}\nbash {TOOLS}/fix-run.sh",
        log_reader=LogReader(
            call="multi_parse", args={"pull": parsed, "module": profile["module"]}, python=interpreter(tools.python)
        ),
        rule="passed",
        fail_to_pass=targets,
        pass_to_pass=list(made.p2p_tests),
        not_failed=_passed_before(made, {*targets, *made.p2p_tests}),
        hidden_paths=HIDDEN,
        language=made.lang or "unknown",
    )


def _passed_before(made: MultiRow, judged: set[str]) -> list[str]:
    """Return the tests that passed before the fix and are in no list."""
    with_tests = made.test_patch_result
    passed = {*with_tests.passed_tests, *(set(made.run_result.passed_tests) - set(with_tests.failed_tests))}
    return sorted(passed - judged)


def _statement(made: MultiRow) -> str:
    issues = [f"{issue.title}\n\n{issue.body or ''}".strip() for issue in made.resolved_issues]
    text = "\n\n".join(issue for issue in issues if issue) or f"{made.title}\n\n{made.body or ''}".strip()
    if not text:
        raise field_error("resolved_issues", "empty, and so are `title` and `body`: there is no problem statement")
    return text
