"""Multiple choice: the policy names one of the options that its row lists."""

from paddock.resources_servers.choice.server import ChoiceServer

__all__ = ["ChoiceServer"]
