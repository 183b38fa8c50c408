"""Token records: turns stored once per rollout, delta-coded in a tree, and joined exactly."""

from paddock.tokens.store import TurnStore, TurnStoreConfig
from paddock.tokens.tree import Placement, full_ids, full_prompt, place

__all__ = ["Placement", "TurnStore", "TurnStoreConfig", "full_ids", "full_prompt", "place"]
