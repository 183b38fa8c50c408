"""Keeps a history within the model's context: which steps are left out, and how tokens are counted.

Law     system and problem are always shown; steps are shown whole or not at all; a notice says how many are not.
Parts   `HeadTail` chooses the steps (`head_tail`), by sizes that are counted (`sizes`) or estimated
        (`token_estimators`).
"""

from paddock.harness.context.head_tail import HeadTail
from paddock.harness.context.settings import ContextSettings, make_context

__all__ = ["ContextSettings", "HeadTail", "make_context"]
