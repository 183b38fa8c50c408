"""Converts instances of SWE data sets to rows of the Nemotron SWE2 blend, which NeMo-Gym's agents and ours read.

Source  SWE-bench, SWE-Gym and R2E-Gym as published on the hub. The whole instance goes along as JSON text
        (`metadata.instance_dict`); `metadata` holds texts alone.
Law     nothing is computed that a grader would compute otherwise: each row is read by the `swe` resources server, and
        what it reads gives the id, the statement and the reference fix where the instance has no column of them.
Errors  ValueError with the reason for an instance that is of another form or that the server refuses.
"""

from typing import Any, NamedTuple

import orjson

from paddock.errors import RowError
from paddock.http import read_row
from paddock.server import ResourcesServer
from paddock.training.data.instance_forms import FORMS
from paddock.types import JsonObject, patch_to_text


class RowTarget(NamedTuple):
    """Fields that converted rows share."""

    form: str
    dataset: str
    split: str
    agent: str


def convert(instance: JsonObject, target: RowTarget, server: ResourcesServer[Any, Any]) -> JsonObject:
    """The row of an instance. `server`: the `swe` resources server. ValueError where the instance can't be
    converted."""
    missing = [name for name in FORMS[target.form].columns if instance.get(name) is None]
    if missing:
        others = [name for name, form in FORMS.items() if all(instance.get(key) is not None for key in form.columns)]
        hint = f"; it looks like {' or '.join(others)}" if others else ""
        raise ValueError(f"is no {target.form} instance: has no {', '.join(missing)}{hint}")
    instance_id = instance.get("instance_id") or _commit_id(instance)
    metadata = {
        "instance_id": instance_id,
        "base_commit": instance.get("base_commit") or "",
        "dataset_name": target.dataset,
        "split": target.split,
        "problem_statement": instance["problem_statement"],
        "instance_dict": orjson.dumps({**instance, "instance_id": instance_id}).decode(),
    }
    row = {
        "responses_create_params": {"input": [], "metadata": metadata},
        "agent_ref": {"type": "responses_api_agents", "name": target.agent},
    }
    try:
        parsed = server.read_task(read_row(row)).instance
    except RowError as error:
        raise ValueError(error.message) from error
    metadata["problem_statement"] = parsed.problem_statement
    metadata["golden_patch"] = patch_to_text(parsed.gold_patch)
    return row


def _commit_id(instance: JsonObject) -> str:
    """`name__name-commit`: the form from which the name of the image's file is made."""
    name = str(instance["repo_name"])
    return f"{name}__{name}-{instance['commit_hash']}"
