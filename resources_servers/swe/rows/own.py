"""The plain own format: everything said once, nothing computed.

Keys    `instance_id`, `problem_statement`, `build` (a recipe) or `image`, `workdir` (/testbed), `patch`, `test_files`
        ({path: text}), `test_command`, `FAIL_TO_PASS`, `PASS_TO_PASS`; optional `repo`, `language`, `test_patch`,
        `log_parser` (parse_log_pytest), `env`, `network` (none).
Errors  RowError for a key that is missing, of another type, or unknown inside `build`.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from paddock.errors import describe
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import fields
from paddock.resources_servers.swe.rows.fields import field_error
from paddock.sandbox.images import Recipe


def read(row: Mapping[str, Any]) -> SweInstance:
    """Read a row of the own format."""
    workdir = fields.optional_text(row, "workdir") or "/testbed"
    build = _build(row, workdir)
    instance_id = fields.text(row, "instance_id")
    image = fields.optional_text(row, "image") or ("" if build is None else instance_id)
    if not image:
        raise field_error("image", "missing, and there is no `build`: a row needs one of the two")
    test_patch = fields.optional_patch(row, "test_patch")
    test_files = _files(row)
    if not test_patch and not test_files:
        raise field_error("test_files", "missing, and there is no `test_patch`: a row needs one of the two")
    return SweInstance(
        instance_id=instance_id,
        dataset="paddock",
        repo=fields.optional_text(row, "repo") or "",
        problem_statement=fields.text(row, "problem_statement"),
        image=image,
        build=build,
        workdir=workdir,
        gold_patch=fields.patch(row, "patch"),
        test_patch=test_patch,
        test_files=test_files,
        test_command=fields.text(row, "test_command"),
        log_parser=fields.optional_text(row, "log_parser") or "parse_log_pytest",
        fail_to_pass=fields.names(row, "FAIL_TO_PASS") or _no_target(),
        pass_to_pass=fields.names(row, "PASS_TO_PASS"),
        env=fields.strings(row, "env"),
        network=fields.network(row),
        language=fields.optional_text(row, "language") or "python",
    )


def _no_target() -> list[str]:
    raise field_error("FAIL_TO_PASS", "empty: no test would tell that the bug is gone")


def _build(row: Mapping[str, Any], workdir: str) -> Recipe | None:
    given = row.get("build")
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise field_error("build", f"needs an object, got {type(given).__name__}")
    try:
        return Recipe.model_validate({"workdir": workdir, **given})
    except ValidationError as error:
        raise field_error("build", describe(error)) from error


def _files(row: Mapping[str, Any]) -> dict[str, bytes]:
    """Read texts by path below the workdir."""
    files = fields.strings(row, "test_files")
    for path in files:
        if path.startswith("/") or ".." in path.split("/"):
            raise field_error("test_files", f"{path!r} is no path below the workdir")
    return {path: content.encode("utf-8", "surrogateescape") for path, content in files.items()}
