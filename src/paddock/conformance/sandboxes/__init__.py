"""What every sandbox runtime does, over real sandboxes on this machine.

    target = find_sandbox("sandbox:bubblewrap")
    results = await run_suite(SUITE, target)

Image    any Linux image with `/bin/sh` and the usual tools, whose `/etc` holds files; by default one that is made of
         this machine's own programs. Behaviours that need git or Python are skipped where the image has none.
Errors   ConfigError: an unknown runtime or image, with the nearest.
"""

from typing import get_args

from paddock.config.problems import suggestion
from paddock.conformance.sandboxes import (
    calls,
    commands,
    files,
    isolation,
    lifetimes,
    limits,
    machine,
    output,
    shells,
    timeouts,
    tunnels,
    users,
)
from paddock.conformance.sandboxes.fixture import SandboxTarget
from paddock.conformance.sandboxes.node import open_node
from paddock.errors import ConfigError
from paddock.sandbox import ImageMissing, SandboxSettings, open_provider
from paddock.sandbox.doctor import probe_settings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.records import RuntimeName

REMOTE = "remote"
SUITE = [
    *commands.SUITE,
    *timeouts.SUITE,
    *output.SUITE,
    *shells.SUITE,
    *files.SUITE,
    *isolation.SUITE,
    *users.SUITE,
    *calls.SUITE,
    *machine.SUITE,
    *limits.SUITE,
    *lifetimes.SUITE,
    *tunnels.SUITE,
]


def find_sandbox(words: str, *, settings: SandboxSettings | None = None, image: str | None = None) -> SandboxTarget:
    """Find the runtime that `sandbox:NAME` names; `auto` is the first that works, `remote` the same one behind a node
    on loopback. `sandbox:module:Class` is a provider of one's own, whose images only it knows."""
    _, _, runtime = words.partition(":")
    if ":" in runtime:
        if image is None:
            raise ConfigError(f"{words}: name an image that it knows (--image)", kind="image_missing")
        own = (settings or SandboxSettings()).model_copy(update={"provider": runtime})
        return SandboxTarget(own, image)
    names = (*get_args(RuntimeName), "auto", REMOTE)
    if runtime not in names:
        raise ConfigError(f"no runtime {runtime!r}{suggestion(runtime, names)}", kind="runtime_unknown")
    settings = settings or SandboxSettings()
    if runtime != REMOTE:
        settings = settings.model_copy(update={"runtime": runtime})
    if image is None:
        settings = probe_settings(settings)
    store = ImageStore(settings.home, payload_id=settings.payload_id)
    image = image or tiny_image(store, rich=True)
    try:
        env = store.get(image).record.env
    except ImageMissing as error:
        raise ConfigError(error.message, kind="image_missing") from error
    return SandboxTarget(settings, image, env, open_node if runtime == REMOTE else open_provider)


__all__ = ["SUITE", "SandboxTarget", "find_sandbox"]
