"""`.sif` files, made and read through Apptainer."""

from paddock.sandbox.images.sif.make import build_sif
from paddock.sandbox.images.sif.read import SifParts, read_sif, unpack_sif

__all__ = ["SifParts", "build_sif", "read_sif", "unpack_sif"]
