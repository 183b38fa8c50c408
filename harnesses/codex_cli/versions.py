"""What differs between versions of Codex: how it is told its one model, and what its command line takes.

Source  0.63.0, 0.121.0 and 0.169.0, by trial. Others are taken for the newest of these that is not newer.
Older   a version without a catalog knows models by their names: of an unknown one it is told the tools and the base
        instructions by its configuration.
"""

from paddock.types import JsonObject

CATALOG_SINCE = (0, 121)
"""Of those that were tried, the first that takes a catalog of models, and `--ephemeral`."""
AGENTS_SINCE = (0, 169)
"""The first in which helpers can be switched off as such; before, they are off."""
INSTRUCTIONS = "instructions.md"


def has_catalog(version: str) -> bool:
    return _parts(version) >= CATALOG_SINCE


def known_to(version: str, config: JsonObject) -> JsonObject:
    """What of a configuration a version reads without an error."""
    older = _parts(version) < AGENTS_SINCE
    return {key: value for key, value in config.items() if not (older and key == "agents")}


def without_catalog(config: JsonObject, *, folder: str, context_tokens: int, output_limit_tokens: int) -> JsonObject:
    """The configuration of a version that takes none: with the same tools. `folder`: where its files are."""
    older = {key: value for key, value in config.items() if key != "model_catalog_json"}
    return {
        **older,
        "experimental_instructions_file": f"{folder}/{INSTRUCTIONS}",
        "model_context_window": context_tokens,
        "tool_output_token_limit": output_limit_tokens,
        "tools": {"web_search": False, "view_image": False},
        "features": {"unified_exec": True, "apply_patch_freeform": True},
    }


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
