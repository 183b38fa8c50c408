"""The report that SWE-bench's harness writes at the end of a run, of predictions graded here.

Source  swebench 5.0.2, `make_run_report`, `schema_version` 2: the same keys, the same denominators. Every instance is
        in one of resolved, unresolved, empty patch, error and incomplete (a row without a prediction).
Ours    `infra_failure_ids` are errors that no patch made: a machine, a grader or a row failed, and there is no verdict;
        `failure_reasons` has the reason of every instance that is not resolved. `paddock`: what wrote it.
"""

from collections.abc import Iterable, Sequence

from paddock import __version__
from paddock.resources_servers.swe.predictions.file import Prediction
from paddock.resources_servers.swe.predictions.grading import GradedPrediction
from paddock.types import JsonObject


def make_report(
    rows: Iterable[str], predictions: Sequence[Prediction], graded: Sequence[GradedPrediction]
) -> JsonObject:
    """Make the report of one model; `rows` are the ids of all instances."""
    submitted = {one.instance_id for one in predictions}
    instances = set(rows)
    groups: dict[str, list[str]] = {
        "completed": _ids(one for one in graded if one.outcome in ("resolved", "unresolved")),
        "incomplete": sorted(instances - submitted),
        "empty_patch": _ids(one for one in graded if one.outcome == "empty_patch"),
        "submitted": sorted(submitted),
        "resolved": _ids(one for one in graded if one.outcome == "resolved"),
        "unresolved": _ids(one for one in graded if one.outcome == "unresolved"),
        "infra_failure": _ids(one for one in graded if not one.is_final),
        "ambiguous_failure": [],
        "error": _ids(one for one in graded if one.outcome == "error"),
    }
    counted = [name for name in groups if name not in ("incomplete",)]
    reasons = {one.instance_id: one.reason for one in graded if one.outcome in ("unresolved", "error")}
    return {
        "total_instances": len(instances),
        **{f"{name}_instances": len(groups[name]) for name in counted},
        **{f"{name}_ids": ids for name, ids in groups.items()},
        "failure_reasons": dict(sorted(reasons.items())),
        "schema_version": 2,
        "paddock": __version__,
    }


def report_name(model: str, run: str) -> str:
    """Return the report's file name, as SWE-bench's harness has it."""
    return f"{model.replace('/', '__')}.{run}.json"


def _ids(graded: Iterable[GradedPrediction]) -> list[str]:
    return sorted(one.instance_id for one in graded)
