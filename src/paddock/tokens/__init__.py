"""Turns as they are kept: delta-coded against their parents, append-only on disk, one file per rollout.

`TurnStore` holds the turns of all rollouts of one model server; `place` and `full_prompt` code and join prompts;
`TurnIndex` finds the turn that a history continues, `request_hash` the one that answered the same request; `samples`
turns a record into what the loss sees. `Prompter` makes prompts in a `Vocabulary`'s ids with a `ChatTemplate`, whole or
what is new since a turn; `PromptTraits` say what the template does to the past.
"""

from paddock.tokens.deltas import Placement, chain, full_prompt, place, split_prompt
from paddock.tokens.export import (
    Mode,
    RolloutSample,
    Sample,
    SkippedTurn,
    Span,
    inline,
    plan_rollout,
    rollout_samples,
    samples,
    skipped,
)
from paddock.tokens.prefix_match import PrefixMatch, TurnIndex, request_hash, root_of
from paddock.tokens.prompter import Prompter
from paddock.tokens.settings import TurnStoreSettings
from paddock.tokens.store import FrozenError, RolloutTurns, TurnStore
from paddock.tokens.template import ChatTemplate
from paddock.tokens.traits import PromptTraits
from paddock.tokens.vocabulary import Decoder, Vocabulary

__all__ = [
    "ChatTemplate",
    "Decoder",
    "FrozenError",
    "Mode",
    "Placement",
    "PrefixMatch",
    "PromptTraits",
    "Prompter",
    "RolloutSample",
    "RolloutTurns",
    "Sample",
    "SkippedTurn",
    "Span",
    "TurnIndex",
    "TurnStore",
    "TurnStoreSettings",
    "Vocabulary",
    "chain",
    "full_prompt",
    "inline",
    "place",
    "plan_rollout",
    "request_hash",
    "rollout_samples",
    "root_of",
    "samples",
    "skipped",
    "split_prompt",
]
