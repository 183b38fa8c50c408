"""An agent of NeMo-Gym's, started here, unmodified, from its own block; its model is ours."""

from paddock.agents.nemo_gym.server import NemoGymAgent

__all__ = ["NemoGymAgent"]
