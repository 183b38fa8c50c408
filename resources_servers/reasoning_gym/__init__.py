"""reasoning-gym: procedural reasoning tasks, scored by that library."""

from paddock.resources_servers.reasoning_gym.server import ReasoningGymServer

__all__ = ["ReasoningGymServer"]
