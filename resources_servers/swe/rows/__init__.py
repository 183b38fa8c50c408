"""Rows of every form, as one `Instance`: one small adapter each, chosen by the fields that a row has.

Forms   Nemotron SWE2 (`responses_create_params.metadata.instance_dict`), R2E-Gym (`parsed_commit_content`), the own
        format (`test_command`), SWE-bench (`eval_script`, or `environment_setup_commit`), SWE-rebench
        (`install_config`), SWE-Gym (what is left with FAIL_TO_PASS and `test_patch`). SWE-bench-Live, SWE-rebench V2
        and what of Multimodal needs files from elsewhere are refused by name (`refused`).
Errors  RowError: a row of two forms, of none, or with a field that its form can't use, named with what would be right.
"""

from collections.abc import Callable
from typing import NamedTuple

from paddock.errors import RowError, boundary
from paddock.resources_servers.swe.instance import Instance
from paddock.resources_servers.swe.rows import nemotron, own, r2e_gym, refused, swe_bench, swe_rebench
from paddock.types import JsonObject, Row

__all__ = ["read"]


class Form(NamedTuple):
    """A row form and the field that tells it."""

    name: str
    key: str
    read: Callable[[JsonObject], Instance]


FORMS = (
    Form("R2E-Gym", "parsed_commit_content", r2e_gym.read),
    Form("the own format", "test_command", own.read),
    Form("SWE-bench", "eval_script", swe_bench.read),
)


def read(row: Row) -> Instance:
    """The instance of a row."""
    with boundary(RowError, "row", stage="seed"):
        metadata = row.responses_create_params.get("metadata")
        if isinstance(metadata, dict) and metadata.get("instance_dict") is not None:
            return nemotron.read(row)
        return _form(row.task).read(row.task)


def _form(task: JsonObject) -> Form:
    told = [form for form in FORMS if task.get(form.key) is not None]
    if len(told) > 1:
        both = " and ".join(f"`{form.key}` ({form.name})" for form in told)
        raise RowError(f"row: has {both}; a row is of one form", kind="task_invalid", stage="seed")
    if told:
        return told[0]
    if task.get("test_patch") is None or task.get("FAIL_TO_PASS") is None:
        raise RowError(
            "row: of no known form; needs `test_patch` and `FAIL_TO_PASS` (SWE-bench, SWE-Gym, SWE-rebench), "
            "`parsed_commit_content` (R2E-Gym), `responses_create_params.metadata.instance_dict` (Nemotron SWE2) "
            "or `test_command` (own format)",
            kind="task_invalid",
            stage="seed",
        )
    refused.refuse(task)
    if task.get("install_config") is not None:
        return Form("SWE-rebench", "install_config", swe_rebench.read)
    if task.get("environment_setup_commit") is not None:
        return Form("SWE-bench", "environment_setup_commit", swe_bench.read)
    return Form("SWE-Gym", "test_patch", swe_bench.read_gym)
