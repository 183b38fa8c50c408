"""Forms that have SWE-bench's columns and can't be graded by SWE-bench's rules: each is refused by its name.

Law     a row of another data set is never read as what it looks like: its own fields tell it, and the message says what
        is missing here and what can be done.
"""

from collections.abc import Mapping
from typing import Any

from paddock.resources_servers.swe.rows import fields
from paddock.resources_servers.swe.rows.fields import field_error

OWN_FORM = (
    "make a row of the own format of it (`image`, `workdir`, `test_command`, `log_parser` of swebench; "
    "`paddock swe check` tries it)"
)
_V2_KEYS = ("base_image_name", "docker_specs")


def refuse(row: Mapping[str, Any]) -> None:
    """Raise RowError for a row of SWE-bench-Live, SWE-rebench V2, or Multimodal with files that are not in it."""
    if row.get("image_assets") is not None and any(fields.obj(row, "image_assets").values()):
        raise field_error(
            "image_assets",
            "a SWE-bench Multimodal row whose tests need binary files that it only links to: put them into "
            "`test_patch` (git diff --binary) and leave `image_assets` out",
        )
    if row.get("eval_script") is not None:
        return
    if row.get("test_cmds") is not None:
        raise field_error(
            "test_cmds",
            f"a SWE-bench-Live row: its log parsers are that data set's own programs, and not here; {OWN_FORM}",
        )
    if is_rebench_v2(row):
        raise field_error(
            "language",
            f"a SWE-rebench V2 row: its tree is at /REPOSITORY, and its log parsers are that data set's own and not "
            f"here, whatever their names; {OWN_FORM}",
        )


def is_rebench_v2(row: Mapping[str, Any]) -> bool:
    """Say whether a row is of SWE-rebench V2: it has a language, or keys of that data set's tools."""
    config = fields.obj(row, "install_config") if row.get("install_config") is not None else {}
    if any(config.get(key) is not None for key in _V2_KEYS):
        return True
    return row.get("language") is not None and row.get("environment_setup_commit") is None
