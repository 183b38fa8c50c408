"""How overlayfs marks what a layer hides: whiteouts, opaque folders; and what we refuse to read.

Names   `user.overlay.*` where the overlay is mounted with `userxattr` (every sandbox of ours), `trusted.overlay.*`
        where a container engine mounts it as root. Only the mount's own are read: a payload may write the other kind.
Hidden  a whiteout is a character device 0:0, or an empty file with the attribute `whiteout`; a folder is opaque by the
        attribute `opaque` = `y` (`x` only says that whiteouts of the second kind are in it).
Refused `redirect` (a moved folder whose content lies elsewhere) and `metacopy` (a file without its data): neither is
        made under `userxattr`, and guessing at them would give a wrong patch. SandboxError.
"""

# Paths are bytes, which pathlib does not take.
# ruff: noqa: PTH208

import os
import stat
from typing import Literal

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.layers.nodes import Node, attribute, attribute_names, join, look

Attributes = Literal["user", "trusted"]


class Marks:
    """Reads the marks of one kind of mount."""

    def __init__(self, attributes: Attributes = "user") -> None:
        self._prefix = f"{attributes}.overlay."

    def whiteout(self, node: Node) -> bool:
        status = node.stat
        if stat.S_ISCHR(status.st_mode):
            return status.st_rdev == 0
        if node.is_file and status.st_size == 0:
            return self._prefix + "whiteout" in attribute_names(node.where)
        return False

    def opaque(self, node: Node) -> bool:
        """Of a directory."""
        name = self._prefix + "opaque"
        return name in attribute_names(node.where) and attribute(node, name) == b"y"

    def check(self, node: Node) -> None:
        """Raise SandboxError for a node with a mark that can't be read correctly."""
        if not (node.is_dir or node.is_file):
            return
        names = attribute_names(node.where)
        for mark in ("redirect", "metacopy"):
            if self._prefix + mark in names:
                raise SandboxError(
                    f"{os.fsdecode(node.where)} has the overlay attribute {self._prefix}{mark}: mount the overlay with "
                    "redirect_dir=off,metacopy=off",
                    kind="overlay_format",
                    retryable=False,
                )

    def find(self, folders: tuple[bytes, ...], name: bytes) -> list[Node]:
        """What a merged folder (its directories, top first) has at a name: nothing, one that is no directory, or
        the directories that are merged there, top first."""
        directories: list[Node] = []
        for folder in folders:
            node = look(join(folder, name))
            if node is None:
                continue
            if self.whiteout(node):
                break
            self.check(node)
            if not node.is_dir:
                return directories or [node]
            directories.append(node)
            if self.opaque(node):
                break
        return directories

    def names(self, folders: tuple[bytes, ...]) -> set[bytes]:
        """Of a merged folder."""
        candidates = {name for folder in folders for name in list_names(folder)}
        return {name for name in candidates if self.find(folders, name)}


def list_names(folder: bytes) -> list[bytes]:
    """Names in a directory of one layer; none once it is gone."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
