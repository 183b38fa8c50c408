"""Arguments of vLLM's server from values of a config.

Law     true is the flag, false its `--no-` form, null nothing; a mapping is JSON; anything else is its text.
"""

import json
from typing import Any


def arguments_of(flag: str, key: str, value: Any) -> list[str]:
    """The arguments that one key comes to; the flag `--` means: a key of the mapping each."""
    if flag != "--":
        return _argument(flag, value)
    if not isinstance(value, dict):
        return [] if value is None else _argument("--" + key.replace("_", "-"), value)
    return [text for name, item in value.items() for text in _argument("--" + str(name).replace("_", "-"), item)]


def _argument(flag: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag.removeprefix('--')}"]
    return [f"{flag}={json.dumps(value) if isinstance(value, dict | list) else value}"]
