"""Environments of verifiers 0.4, run by its own code: rollouts, harnesses, tools and rewards."""

from paddock.agents.verifiers.server import VerifiersAgent

__all__ = ["VerifiersAgent"]
