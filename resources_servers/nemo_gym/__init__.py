"""A resources server of NeMo-Gym's, started here, unmodified, from its own block."""

from paddock.resources_servers.nemo_gym.server import NemoGymServer

__all__ = ["NemoGymServer"]
