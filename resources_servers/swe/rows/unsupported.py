"""What of SWE-bench Multimodal can't be graded here: tests with binary files that the row only links to."""

from collections.abc import Mapping
from typing import Any

from paddock.resources_servers.swe.rows import fields
from paddock.resources_servers.swe.rows.fields import field_error


def refuse(row: Mapping[str, Any]) -> None:
    """Raise RowError for a row of Multimodal with files that are not in it."""
    if row.get("image_assets") is not None and any(fields.obj(row, "image_assets").values()):
        raise field_error(
            "image_assets",
            "a SWE-bench Multimodal row whose tests need binary files that it only links to: put them into "
            "`test_patch` (git diff --binary) and leave `image_assets` out",
        )
