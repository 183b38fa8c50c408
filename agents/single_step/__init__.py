"""The single-step agent: one model call, one verdict."""

from paddock.agents.single_step.server import SingleStepAgent

__all__ = ["SingleStepAgent"]
