"""Images built from a recipe, for machines without a registry; and scripts that make a foreign image fit to be seen."""

from paddock.sandbox.images.build.base import Progress, base_image
from paddock.sandbox.images.build.instance import build_image
from paddock.sandbox.images.build.python import python_image
from paddock.sandbox.images.build.scrub import check_scrubbed, scrub_commands

__all__ = ["Progress", "base_image", "build_image", "check_scrubbed", "python_image", "scrub_commands"]
