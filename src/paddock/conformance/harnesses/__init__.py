"""What every harness does, over real sandboxes of this machine and a model server that answers on cue.

    target = find_harness("harness:codeact")
    results = await run_suite(SUITE, target)

Tools    a tool that runs shell lines is found by its name and schema; a harness without one, and one that makes no
         request of its own, skips the behaviours that need it.
Errors   ConfigError: an unknown harness, or settings that it does not have.
"""

from paddock.config import Config
from paddock.config.yaml_text import parse
from paddock.conformance.harnesses import exits, known_fix, reports, requests, tool_calls
from paddock.conformance.harnesses.fixture import FILES, HarnessTarget
from paddock.errors import ConfigError
from paddock.harness import harness_class
from paddock.sandbox import SandboxSettings
from paddock.sandbox.doctor import probe_settings
from paddock.sandbox.images import ImageStore
from paddock.testing.sandboxes import repository_image
from paddock.types import JsonObject

SUITE = [*requests.SUITE, *tool_calls.SUITE, *reports.SUITE, *exits.SUITE, *known_fix.SUITE]
IMAGE = "paddock/check-harness-2"


def find_harness(words: str, *, config: Config | None = None, settings: SandboxSettings | None = None) -> HarnessTarget:
    """Find the harness that `harness:NAME` names, with the settings of the first agent in the config that has it."""
    spec = words.partition(":")[2]
    if not spec:
        raise ConfigError(f"{words!r}: needs KIND:NAME, such as harness:codeact", kind="subject_invalid")
    cls = harness_class(spec)
    settings = settings or probe_settings(SandboxSettings())
    target = HarnessTarget(spec, cls, _block(spec, config), settings, IMAGE)
    try:
        target.make()
    except ConfigError as error:
        raise ConfigError(
            f"{error.message} (a config with an agent that has it says how it is made)", kind=error.kind
        ) from error
    try:
        repository_image(ImageStore(settings.home, payload_id=settings.payload_id), IMAGE, FILES)
    except FileNotFoundError as error:
        raise ConfigError(str(error), kind="image_missing") from error
    return target


def _block(spec: str, config: Config | None) -> JsonObject:
    """Return the `harness_config` of the first agent in the config that has this harness."""
    if config is None:
        return {}
    tree = parse(config.to_yaml(), "composed config").tree
    agents = [
        tree[name][entry.kind][entry.implementation]
        for name, entry in config.instances.items()
        if entry.kind == "agents"
    ]
    mine = [agent for agent in agents if agent and agent.get("harness") == spec]
    if not mine:
        raise ConfigError(f"no agent of the config has the harness {spec}", kind="no_harness")
    block: JsonObject = mine[0].get("harness_config") or {}
    return block


__all__ = ["SUITE", "HarnessTarget", "find_harness"]
