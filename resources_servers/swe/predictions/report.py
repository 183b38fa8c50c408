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
    submitted = {item.instance_id for item in predictions}
    instances = set(rows)
    groups: dict[str, list[str]] = {
        "completed": _ids(item for item in graded if item.outcome in ("resolved", "unresolved")),
        "incomplete": sorted(instances - submitted),
        "empty_patch": _ids(item for item in graded if item.outcome == "empty_patch"),
        "submitted": sorted(submitted),
        "resolved": _ids(item for item in graded if item.outcome == "resolved"),
        "unresolved": _ids(item for item in graded if item.outcome == "unresolved"),
        "infra_failure": _ids(item for item in graded if not item.is_final),
        "ambiguous_failure": [],
        "error": _ids(item for item in graded if item.outcome == "error"),
    }
    counted = [name for name in groups if name not in ("incomplete",)]
    reasons = {item.instance_id: item.reason for item in graded if item.outcome in ("unresolved", "error")}
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
    return sorted(item.instance_id for item in graded)
