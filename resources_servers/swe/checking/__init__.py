"""Checking rows before anyone trains on them: what the tests say with and without the fix, and what the image tells."""

from paddock.resources_servers.swe.checking.drafts import Draft, finished, read_draft
from paddock.resources_servers.swe.checking.records import Finding, Flake, RowReport
from paddock.resources_servers.swe.checking.reports import Reports, write_rows
from paddock.resources_servers.swe.checking.row_file import Line, read_lines
from paddock.resources_servers.swe.checking.rows import Checked, CheckOptions, Watcher, check_rows

__all__ = [
    "CheckOptions",
    "Checked",
    "Draft",
    "Finding",
    "Flake",
    "Line",
    "Reports",
    "RowReport",
    "Watcher",
    "check_rows",
    "finished",
    "read_draft",
    "read_lines",
    "write_rows",
]
