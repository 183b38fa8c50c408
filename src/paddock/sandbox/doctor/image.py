"""Where runtimes are tried: a home apart, with the one image that can be made on any machine."""

from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.settings import SandboxSettings

FOLDER = "/usr/share/tiny"
"""A folder of the image, to be removed and made again."""


def probe_settings(settings: SandboxSettings) -> SandboxSettings:
    """The same, with a home below the home."""
    return settings.model_copy(update={"home": settings.home / "probe", "programs_of": settings.programs_home})


def probe_image(settings: SandboxSettings) -> str:
    """Its name; made in the store of those settings, where it is not there yet."""
    return tiny_image(ImageStore(settings.home, payload_id=settings.payload_id))
