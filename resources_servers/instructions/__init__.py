"""Verifiable instructions: the policy's answer obeys constraints that a program can check."""

from paddock.resources_servers.instructions.server import InstructionsServer

__all__ = ["InstructionsServer"]
