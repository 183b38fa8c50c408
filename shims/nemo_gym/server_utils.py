"""NeMo-Gym's names of its head server, by which a caller says whose rollouts it asks for. Nothing listens there."""

from typing import NamedTuple

HEAD_SERVER_KEY_NAME = "head_server"


class BaseServerConfig(NamedTuple):
    host: str
    port: int
