"""Images: the store, names computed from rows, building, converting and pulling."""

from paddock.sandbox.images.recipe import GitSource, Recipe
from paddock.sandbox.images.store import ImageRecord, ImageStore, LocalImage

__all__ = ["GitSource", "ImageRecord", "ImageStore", "LocalImage", "Recipe"]
