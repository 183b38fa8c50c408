"""Predictions in SWE-bench's form, graded, and reported in its form."""

from paddock.resources_servers.swe.predictions.file import Prediction, read_predictions
from paddock.resources_servers.swe.predictions.grading import (
    GradedPrediction,
    GradeOptions,
    grade_predictions,
    rows_by_id,
)
from paddock.resources_servers.swe.predictions.report import make_report, report_name
from paddock.resources_servers.swe.predictions.row_grader import open_row_grader

__all__ = [
    "GradeOptions",
    "GradedPrediction",
    "Prediction",
    "grade_predictions",
    "make_report",
    "open_row_grader",
    "read_predictions",
    "report_name",
    "rows_by_id",
]
