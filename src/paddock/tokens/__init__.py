"""Turns as they are kept: delta-coded against their parents, append-only on disk, one file per rollout.

`TurnStore` holds the turns of all rollouts of one model server; `place` and `full_prompt` code and join prompts;
`Told` and `continued_turn` find a parent where the engine gives no ids; `rollout_of` reads the rollout that a call
belongs to; `samples` turns a record into what the loss sees.
"""

from paddock.tokens.calls import request_hash, rollout_of
from paddock.tokens.deltas import Placed, chain, full_prompt, place, split_prompt
from paddock.tokens.export import Mode, Sample, Skipped, Span, samples, skipped
from paddock.tokens.history import Told, continued_turn
from paddock.tokens.settings import TurnStoreSettings
from paddock.tokens.store import FrozenError, TurnStore

__all__ = [
    "FrozenError",
    "Mode",
    "Placed",
    "Sample",
    "Skipped",
    "Span",
    "Told",
    "TurnStore",
    "TurnStoreSettings",
    "chain",
    "continued_turn",
    "full_prompt",
    "place",
    "request_hash",
    "rollout_of",
    "samples",
    "skipped",
    "split_prompt",
]
