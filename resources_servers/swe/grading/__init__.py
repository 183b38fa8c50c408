"""Grading: a patch and an instance in, a grade out."""

from paddock.resources_servers.swe.grading.grader import REASONS, Grade, Grader, Reason
from paddock.resources_servers.swe.grading.health import measure_of
from paddock.resources_servers.swe.grading.trial import GradingOptions

__all__ = ["REASONS", "Grade", "Grader", "GradingOptions", "Reason", "measure_of"]
