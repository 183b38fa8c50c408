"""Resources servers of NeMo-Gym's that nothing here replaces: their blocks are those of `nemo_gym`, which starts them.

Law     such a block has an `entrypoint`, as theirs must, and no name of the alias table; one without, in a file with
        NeMo-Gym's names, adds to it, unless a plugin of ours has its name.
"""

from typing import Any

from paddock.config.directives import DIRECTIVE_KEYS
from paddock.config.plugins import implementations
from paddock.types import JsonObject

SERVED = "nemo_gym"
SERVERS = "resources_servers"


def is_server_of_theirs(kind: str, written: str, block: Any, *, nemo_gym: bool) -> bool:
    """Whether `written`, which is no name of the alias table, is a server of theirs. `nemo_gym`: the file has their
    names."""
    if kind != SERVERS or not isinstance(block, dict) or ":" in written or written == SERVED:
        return False
    return "entrypoint" in block or (nemo_gym and written not in implementations(kind))


def own_server_block(written: str, block: JsonObject) -> JsonObject:
    """The block of `nemo_gym` for one of theirs."""
    directives = {key: value for key, value in block.items() if key in DIRECTIVE_KEYS}
    config = {key: value for key, value in block.items() if key not in DIRECTIVE_KEYS}
    return {**directives, "server": written, "config": config}
