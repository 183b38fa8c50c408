"""Rows of the own format made from people's own repositories: a fix that has its tests becomes a task."""

from paddock.resources_servers.swe.from_commits.history import CommitChange, FixCommit, GitHistory, open_history
from paddock.resources_servers.swe.from_commits.paths import is_test, split_paths
from paddock.resources_servers.swe.from_commits.row import RowRequest, RowWithNotes, make_row

__all__ = [
    "CommitChange",
    "FixCommit",
    "GitHistory",
    "RowRequest",
    "RowWithNotes",
    "is_test",
    "make_row",
    "open_history",
    "split_paths",
]
