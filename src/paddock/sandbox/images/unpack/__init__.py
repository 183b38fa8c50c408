"""File trees of images: written from layers and folders that nobody vouches for, and read again as layers."""

from paddock.sandbox.images.unpack.folder import adopt, copy_folder
from paddock.sandbox.images.unpack.layer import apply_layer, measure_layer
from paddock.sandbox.images.unpack.limits import Budget, ImageLimits
from paddock.sandbox.images.unpack.pack import write_layer
from paddock.sandbox.images.unpack.tree import UnpackTree

__all__ = ["Budget", "ImageLimits", "UnpackTree", "adopt", "apply_layer", "copy_folder", "measure_layer", "write_layer"]
