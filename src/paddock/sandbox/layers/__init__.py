"""A sandbox's file system read by the host from its overlay layers; nothing of the sandbox is ever run or trusted."""

from paddock.sandbox.layers.archives import Archive, archive
from paddock.sandbox.layers.disk import disk_use, remove_tree
from paddock.sandbox.layers.litter import LITTER
from paddock.sandbox.layers.patches import OmittedPath, Patch, PatchLimits, patch
from paddock.sandbox.layers.upper_copy import copy_upper
from paddock.sandbox.layers.view import View
from paddock.sandbox.layers.walk import LayerChange

__all__ = [
    "LITTER",
    "Archive",
    "LayerChange",
    "OmittedPath",
    "Patch",
    "PatchLimits",
    "View",
    "archive",
    "copy_upper",
    "disk_use",
    "patch",
    "remove_tree",
]
