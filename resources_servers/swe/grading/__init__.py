"""Grading: a patch and an instance in, a grade out."""

from paddock.resources_servers.swe.grading.grader import REASONS, Grade, Grader, GradingOptions, Reason

__all__ = ["REASONS", "Grade", "Grader", "GradingOptions", "Reason"]
