"""deepswe rows (NeMo-Gym's row form of these tasks): a verifier script that writes 1 or 0 into a file.

Source  `instance_dict` of NeMo-Gym's data set `deepswe`: base_commit, patch, test_patch, test_sh, baseline_fix,
        workspace_path (/app). The tasks in Harbor's form are of another server (docs/environments.md).
Tests   `test_sh` resets the files of the test patch, applies it and runs its suites: the grader only sees to it that
        the tree has these files as the image has them.
Rule    /logs/verifier/reward.txt is 1. NeMo-Gym grades what is left of a patch of which parts do not apply; here such a
        patch is refused.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows.fields import changed_paths
from paddock.resources_servers.swe.rows.schema import PublishedRow, Text, patch_bytes, place, validate

NAME = "deepswe"
TEST_SH, TEST_PATCH, REWARD = "/tests/test.sh", "/tests/test.patch", "/logs/verifier/reward.txt"


class DeepSweRow(PublishedRow):
    test_patch: Text
    test_sh: Text
    workspace_path: Annotated[str, Field(pattern="^/")] = "/app"
    baseline_fix: str = ""
    language: str = "unknown"


def read(row: Mapping[str, Any]) -> SweInstance:
    """Read a deepswe row."""
    made = validate(DeepSweRow, row, NAME)
    test_patch = patch_bytes(row, "test_patch")
    # A group and no subshell: what it sets holds for the verifier.
    repair = f"{{ {made.baseline_fix} ; }} >/dev/null 2>&1\n" if made.baseline_fix.strip() else ""
    return SweInstance(
        **place(row, "swe_bench_local", made.workspace_path).fields(),
        instance_id=made.instance_id,
        dataset="deepswe",
        repo=made.repo,
        problem_statement=made.problem_statement,
        workdir=made.workspace_path,
        gold_patch=patch_bytes(row, "patch"),
        reference_paths=changed_paths(test_patch),
        test_tools={TEST_SH: made.test_sh.encode("utf-8", "surrogateescape"), TEST_PATCH: test_patch},
        test_command=f"mkdir -p /logs/verifier /logs/artifacts\n{repair}bash {TEST_SH}",
        result_command=f"cat {REWARD}",
        rule="reward",
        fail_to_pass=["test.sh"],
        language=made.language,
    )
