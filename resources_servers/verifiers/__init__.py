"""Tasks and rewards of an environment of verifiers 0.4."""

from paddock.resources_servers.verifiers.server import VerifiersServer

__all__ = ["VerifiersServer"]
