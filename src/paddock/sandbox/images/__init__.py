"""Images: the store, names computed from rows, building, converting and pulling."""

from paddock.sandbox.images.convert import export_layout, to_sif, to_store
from paddock.sandbox.images.disk_use import disk_bytes
from paddock.sandbox.images.names import DATASETS, Dataset, image_name, replace_registry, rewrites
from paddock.sandbox.images.prune import PruneReport, layers_in_use, prune
from paddock.sandbox.images.pull import ProgressMeter, Puller
from paddock.sandbox.images.recipe import GitSource, Recipe
from paddock.sandbox.images.registry import Backoff, RegistryOptions
from paddock.sandbox.images.sources import ImageSettings, ImageSource, candidates, resolve
from paddock.sandbox.images.store import ImageRecord, ImageStore, LocalImage
from paddock.sandbox.images.unpack import ImageLimits

__all__ = [
    "DATASETS",
    "Backoff",
    "Dataset",
    "GitSource",
    "ImageLimits",
    "ImageRecord",
    "ImageSettings",
    "ImageSource",
    "ImageStore",
    "LocalImage",
    "ProgressMeter",
    "PruneReport",
    "Puller",
    "Recipe",
    "RegistryOptions",
    "candidates",
    "disk_bytes",
    "export_layout",
    "image_name",
    "layers_in_use",
    "prune",
    "replace_registry",
    "resolve",
    "rewrites",
    "to_sif",
    "to_store",
]
