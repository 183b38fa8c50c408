"""One SWE task, whatever dataset its row came from. Adapters in `rows` make it; seed, oracle and grading read it only.

Visible `visible()` is all that an agent may see: an allow-list. Nothing that names the fix, the tests or their script
        is in it.
Tests   a script in the official form (`eval_script`, swebench 5.x), or our own (`test_command`, `test_files`);
        R2E-Gym rows compare a whole map instead (`expected`). Reference tests come as a patch, as files, or from a
        command that the row gives (`test_patch`, `test_files`, `test_setup`).
Patches are bytes: line ends and encodings are the repository's business.
"""

from typing import Literal

from paddock.sandbox.images import Recipe
from paddock.types import JsonObject, Record

Dataset = Literal[
    "swe_bench",
    "swe_gym",
    "swe_rebench",
    "swe_rebench_v2",
    "swe_bench_live",
    "swe_bench_pro",
    "swe_bench_ext",
    "swe_smith",
    "multi_swe",
    "deepswe",
    "denovoswe",
    "r2e_gym",
    "nv_internal",
    "paddock",
]
Rule = Literal["lists", "map", "passed", "reward"]
"""`lists`: the official rule; `map`: every status as expected; `passed`: all of both lists PASSED, which are not both
empty, and none of `not_failed` FAILED; `reward`: what `result_command` writes is 1."""


class LogReader(Record):
    """A publisher's parser, which `publishers.read_log` runs."""

    call: str
    """A function of `publisher_parsers`."""
    args: JsonObject
    """Its arguments but the log."""
    python: str
    """The interpreter that has the publisher's code."""
    reads_results: bool = False
    """It also gets what `result_command` writes."""


class SweInstance(Record):
    """A repository with a bug, and how to tell that it is gone."""

    instance_id: str
    dataset: Dataset
    repo: str = ""
    problem_statement: str
    image: str
    """Name for the image store."""
    build: Recipe | None = None
    """How to build the image where it is not there; None: it is pulled."""
    workdir: str = "/testbed"
    base_commit: str | None = None
    """The repository's HEAD in the image; None: whatever HEAD is."""
    gold_patch: bytes
    """The reference fix, without tests; empty: there is none, and what needs one gives no verdict."""
    image_patch: bytes = b""
    """A git patch that makes the image's tree the task's: a bug put into it."""
    test_patch: bytes = b""
    """A git patch of the reference tests."""
    test_files: dict[str, bytes] = {}
    """Reference test files by path below the workdir; with `test_patch`, or instead of it."""
    reference_paths: list[str] = []
    """Paths below the workdir at which the untouched tree has the reference's own."""
    test_setup: str | None = None
    """Shell command that puts the reference tests into an untouched tree, where the row has no patch of them."""
    test_tools: dict[str, bytes] = {}
    """Files that the test command needs, by absolute path; only there while tests run."""
    eval_script: str | None = None
    """The official script of the row."""
    test_command: str | None = None
    """Shell command that runs the tests in the workdir, where there is no official script."""
    log_parser: str = "parse_log_pytest"
    """A key of swebench's PARSER_REGISTRY."""
    log_program: bytes | None = None
    """A Python program of the row in place of a parser: `program stdout stderr result.json`; run in a sandbox of its
    own, which holds nothing of the agent's."""
    log_reader: LogReader | None = None
    """A publisher's parser in place of swebench's."""
    result_command: str | None = None
    """Shell command, run after the tests in the same sandbox, that writes what they left in a file: a reader gets it
    apart from their output, where code under test could have put it."""
    version: str = ""
    """The repository's version, as the row has it: some parsers of swebench ask for it."""
    eval_type: Literal["pass_and_fail", "fail_only"] = "pass_and_fail"
    rule: Rule = "lists"
    fail_to_pass: list[str] = []
    pass_to_pass: list[str] = []
    not_failed: list[str] = []
    """Rule `passed`: tests that may be missing or skipped, and may not fail."""
    expected: dict[str, str] = {}
    """Rule `map`: status by test."""
    before: dict[str, str] = {}
    """Rule `map`: status by test without the fix, where the row has it."""
    hidden_paths: list[str] = []
    """Absolute paths in the image that hold tests or answers: removed from what the agent gets."""
    env: dict[str, str] = {}
    """Environment variables of the tests."""
    network: Literal["none", "blackhole"] = "none"
    language: str = "python"

    def visible(self) -> JsonObject:
        """Return what an agent may see."""
        return {
            "instance_id": self.instance_id,
            "problem_statement": self.problem_statement,
            "repo": self.repo,
            "language": self.language,
            "workdir": self.workdir,
        }
