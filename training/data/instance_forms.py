"""The forms of instances that become rows, by the name that `paddock data convert --form` takes."""

from typing import NamedTuple


class InstanceForm(NamedTuple):
    """The form of one family of data sets."""

    columns: tuple[str, ...]
    """The columns that an instance must have."""
    dataset: str
    """The published name, used unless another is given."""
    split: str


_TESTS = ("repo", "base_commit", "problem_statement", "patch", "test_patch", "FAIL_TO_PASS", "PASS_TO_PASS")
FORMS = {
    "swe_bench": InstanceForm(("instance_id", *_TESTS), "SWE-bench/SWE-bench", "test"),
    "swe_gym": InstanceForm(("instance_id", *_TESTS), "SWE-Gym/SWE-Gym", "train"),
    "r2e_gym": InstanceForm(
        (
            "repo_name",
            "commit_hash",
            "problem_statement",
            "parsed_commit_content",
            "execution_result_content",
            "expected_output_json",
        ),
        "R2E-Gym/R2E-Gym-Subset",
        "train",
    ),
}
