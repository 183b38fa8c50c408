"""Published schemas: the fields of a row that are read, checked as a whole; what a data set adds is left alone.

Errors  RowError, kind `task_invalid`, with the names of all fields that are wrong.
"""

import ast
import json
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from paddock.errors import RowError, describe
from paddock.resources_servers.swe.rows import fields
from paddock.resources_servers.swe.rows.fields import field_error
from paddock.sandbox.images import Recipe
from paddock.sandbox.images.names import Dataset

TOOLS = "/tmp/paddock-tests"  # noqa: S108 - inside the sandbox
Text = Annotated[str, Field(min_length=1)]


def listed(value: Any) -> Any:
    """Return a list that is given as itself, as JSON or as Python shows it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        pass
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError("needs a list, or a string that holds one") from None


def _commands(value: Any) -> Any:
    return [value] if isinstance(value, str) else value or []


TestNames = Annotated[list[str], BeforeValidator(listed)]
Commands = Annotated[list[str], BeforeValidator(_commands)]
"""Shell commands, or one."""


class PublishedRow(BaseModel):
    """What rows of all these data sets have."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    instance_id: Text
    repo: str = ""
    problem_statement: Text
    patch: Text


class TestLists(BaseModel):
    """The lists, under the names that SWE-bench gave them."""

    FAIL_TO_PASS: Annotated[TestNames, Field(min_length=1)]
    PASS_TO_PASS: TestNames = []


SchemaT = TypeVar("SchemaT", bound=BaseModel)


def validate(schema: type[SchemaT], row: Mapping[str, Any], what: str) -> SchemaT:
    """Read a row by its published schema; RowError says `what` row it is, and which fields are wrong."""
    try:
        return schema.model_validate(dict(row))
    except ValidationError as error:
        raise RowError(f"a row of {what}: {describe(error)}", kind="task_invalid", stage="seed") from error


class InstancePlace(NamedTuple):
    """Where an instance's tree is."""

    image: str
    build: Recipe | None
    env: dict[str, str]
    network: Any

    def fields(self) -> dict[str, Any]:
        return self._asdict()


def place(row: Mapping[str, Any], dataset: Dataset, workdir: str) -> InstancePlace:
    """Find a row's image: built from the recipe in its `paddock`, its own field, or the publisher's rule."""
    own = fields.recipe_fields(row)
    built = fields.recipe(own, workdir=workdir, key="paddock") if "python" in own else None
    return InstancePlace(
        image=fields.image(row, own, dataset),
        build=built,
        env=fields.strings(own, "env"),
        network=fields.network(own),
    )


def is_built(row: Mapping[str, Any]) -> bool:
    """Say whether the row's image is built from a recipe."""
    return "python" in fields.recipe_fields(row)


def patch_bytes(row: Mapping[str, Any], key: str) -> bytes:
    """Return a patch as its bytes; it may be empty."""
    return fields.optional_patch(row, key)


def lacks(key: str, what: str, remedy: str) -> RowError:
    """Make the error of a row that something unpublished, or not named in the config, is missing for."""
    return field_error(key, f"{what}; {remedy}")
