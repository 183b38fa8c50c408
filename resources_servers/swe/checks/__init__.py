"""Checks of rows before anyone trains on them: what tests say with and without the fix, and what the image holds."""

from paddock.resources_servers.swe.checks.drafts import RowDraft, read_draft, with_lists
from paddock.resources_servers.swe.checks.records import CheckFinding, Flake, RowReport
from paddock.resources_servers.swe.checks.reports import Reports, write_rows
from paddock.resources_servers.swe.checks.row_checkers import CheckOptions
from paddock.resources_servers.swe.checks.row_file import RowLine, read_lines
from paddock.resources_servers.swe.checks.rows import RowCheckResult, Watcher, check_rows

__all__ = [
    "CheckFinding",
    "CheckOptions",
    "Flake",
    "Reports",
    "RowCheckResult",
    "RowDraft",
    "RowLine",
    "RowReport",
    "Watcher",
    "check_rows",
    "read_draft",
    "read_lines",
    "with_lists",
    "write_rows",
]
