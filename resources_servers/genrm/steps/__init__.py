"""Votes of a judge on single steps of a rollout: `StepScorer`."""

from paddock.resources_servers.genrm.steps.scoring import StepScorer

__all__ = ["StepScorer"]
