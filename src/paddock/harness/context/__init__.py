"""Keeping a history within the model's context: what is left out, and what is counted.

Law     system and problem are always shown; steps are shown whole or not at all; what is left out is said to the model.
Parts   `HeadTail` chooses (`head_tail`), by lengths that are counted (`sizes`) or estimated (`token_estimators`).
"""

from paddock.harness.context.head_tail import HeadTail
from paddock.harness.context.settings import ContextSettings, make_context

__all__ = ["ContextSettings", "HeadTail", "make_context"]
