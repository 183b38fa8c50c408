"""Rows of every form, as one `SweInstance`: one small adapter each, chosen by the fields that a row has.

Forms   Nemotron SWE2 (`responses_create_params.metadata.instance_dict`), R2E-Gym (`parsed_commit_content`), the own
        format (`test_command`), SWE-bench (`eval_script`, or `environment_setup_commit`), SWE-rebench
        (`install_config`), SWE-Gym (what is left with FAIL_TO_PASS and `test_patch`). SWE-bench-Live, SWE-rebench V2
        and what of Multimodal needs files from elsewhere are refused by name (`unsupported`).
Errors  RowError: a row of two forms, of none, or with a field that its form can't use, named with what would be right.
"""

from collections.abc import Callable
from typing import NamedTuple

from paddock.errors import RowError, boundary
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import nemotron, own, r2e_gym, swe_bench, swe_rebench, unsupported
from paddock.types import JsonObject, Row

__all__ = ["read"]


class RowForm(NamedTuple):
    """A form of rows, and the field by which it is recognised."""

    name: str
    key: str
    read: Callable[[JsonObject], SweInstance]


FORMS = (
    RowForm("R2E-Gym", "parsed_commit_content", r2e_gym.read),
    RowForm("the own format", "test_command", own.read),
    RowForm("SWE-bench", "eval_script", swe_bench.read),
)


def read(row: Row) -> SweInstance:
    """Read a row's instance; RowError where its form or a field is wrong."""
    with boundary(RowError, "row", stage="seed"):
        metadata = row.responses_create_params.get("metadata")
        if isinstance(metadata, dict) and metadata.get("instance_dict") is not None:
            return nemotron.read(row)
        return _form(row.task).read(row.task)


def _form(task: JsonObject) -> RowForm:
    forms = [form for form in FORMS if task.get(form.key) is not None]
    if len(forms) > 1:
        both = " and ".join(f"`{form.key}` ({form.name})" for form in forms)
        raise RowError(f"row: has {both}; a row is of one form", kind="task_invalid", stage="seed")
    if forms:
        return forms[0]
    if task.get("test_patch") is None or task.get("FAIL_TO_PASS") is None:
        keys = ", ".join(f"`{form.key}` ({form.name})" for form in FORMS)
        raise RowError(
            f"row: of no known form; needs `test_patch` and `FAIL_TO_PASS` (SWE-bench, SWE-Gym, SWE-rebench), {keys} "
            "or `responses_create_params.metadata.instance_dict` (Nemotron SWE2)",
            kind="task_invalid",
            stage="seed",
        )
    unsupported.refuse(task)
    if task.get("install_config") is not None:
        return RowForm("SWE-rebench", "install_config", swe_rebench.read)
    if task.get("environment_setup_commit") is not None:
        return RowForm("SWE-bench", "environment_setup_commit", swe_bench.read)
    return RowForm("SWE-Gym", "test_patch", swe_bench.read_gym)
