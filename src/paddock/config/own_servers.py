"""Resources servers and agents of NeMo-Gym's that nothing here replaces: their blocks are those of `nemo_gym`, which
starts them.

Law     such a block has an `entrypoint`, as theirs must, and no name of the alias table; one without, below their word
        for its kind in a file with NeMo-Gym's names, adds to it, unless a plugin of ours has its name.
"""

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from paddock.config.directives import DIRECTIVE_KEYS
from paddock.config.plugins import implementations
from paddock.types import JsonObject

SERVED = "nemo_gym"


class _OwnKind(NamedTuple):
    """How a block of theirs is written as one of `nemo_gym`."""

    their_word: str
    """Of the kind."""
    named_by: str
    """The key of ours that has its name."""
    shared_keys: Set[str] = frozenset()
    """Keys of theirs that are ours, too; all others are its `config`."""


_KINDS: Mapping[str, _OwnKind] = {
    "resources_servers": _OwnKind("resources_servers", "server"),
    "agents": _OwnKind("responses_api_agents", "agent", frozenset({"resources_server", "model_server", "datasets"})),
}


def is_server_of_theirs(kind: str, kind_key: str, written: str, block: Any, *, nemo_gym: bool) -> bool:
    """Whether `written`, which is no name of the alias table, is a server of theirs. `kind_key`: the word for its kind
    that it stands below; `nemo_gym`: the file has their names."""
    if kind not in _KINDS or not isinstance(block, dict) or ":" in written or written == SERVED:
        return False
    adds = nemo_gym and kind_key == _KINDS[kind].their_word and written not in implementations(kind)
    return "entrypoint" in block or adds


def own_server_block(kind: str, written: str, block: JsonObject) -> JsonObject:
    """The block of `nemo_gym` for one of theirs."""
    own = _KINDS[kind]
    kept = {key: value for key, value in block.items() if key in DIRECTIVE_KEYS or key in own.shared_keys}
    return {**kept, own.named_by: written, "config": {key: value for key, value in block.items() if key not in kept}}
