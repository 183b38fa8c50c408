"""Where NeMo-Gym keeps the classes of its configs."""

from nemo_gym.server_utils import BaseServerConfig

__all__ = ["BaseServerConfig"]
