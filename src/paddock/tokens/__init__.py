"""Turns as they are kept: delta-coded against their parents, append-only on disk, one file per rollout.

`TurnStore` holds the turns of all rollouts of one model server; `place` and `full_prompt` code and join prompts;
`continued_turn` finds a parent where the engine gives no ids; `rollout_of` reads the rollout that a call belongs to.
"""

from paddock.tokens.calls import request_hash, rollout_of
from paddock.tokens.deltas import Placed, chain, full_prompt, place, split_prompt
from paddock.tokens.history import continued_turn
from paddock.tokens.settings import TurnStoreSettings
from paddock.tokens.store import FrozenError, TurnStore

__all__ = [
    "FrozenError",
    "Placed",
    "TurnStore",
    "TurnStoreSettings",
    "chain",
    "continued_turn",
    "full_prompt",
    "place",
    "request_hash",
    "rollout_of",
    "split_prompt",
]
