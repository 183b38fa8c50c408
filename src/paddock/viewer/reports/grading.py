"""`paddock swe grade`: how predictions did, as blocks.

Form    SWE-bench's report, `schema_version` 2, as `paddock.resources_servers.swe.predictions.report` writes it; without
        `paddock` and `failure_reasons` SWE-bench's harness wrote it.
"""

from collections import Counter
from collections.abc import Iterator

from paddock.viewer.blocks import Block, Cell, Grid, Heading, LabelledValue, Tone
from paddock.viewer.reports.forms import StoredPart


class StoredGrading(StoredPart):
    total_instances: int
    completed_instances: int
    empty_patch_instances: int
    submitted_instances: int
    resolved_instances: int
    unresolved_instances: int
    infra_failure_instances: int = 0
    ambiguous_failure_instances: int = 0
    error_instances: int
    completed_ids: list[str]
    incomplete_ids: list[str] = []
    empty_patch_ids: list[str]
    submitted_ids: list[str]
    resolved_ids: list[str]
    unresolved_ids: list[str]
    infra_failure_ids: list[str] = []
    ambiguous_failure_ids: list[str] = []
    error_ids: list[str]
    failure_reasons: dict[str, str] = {}
    schema_version: int
    paddock: str = ""


def verdict(report: StoredGrading) -> LabelledValue:
    """One line, and its tone."""
    total = report.total_instances
    share = f" ({report.resolved_instances / total:.1%})" if total else ""
    unjudged = report.infra_failure_instances
    note = f"; {unjudged} without a verdict: a machine, a grader or a row failed" if unjudged else ""
    tone: Tone = "bad" if unjudged else "good" if report.resolved_instances else "plain"
    return LabelledValue("grading", f"{report.resolved_instances} of {total} instances resolved{share}{note}", tone)


def blocks(report: StoredGrading) -> Iterator[Block]:
    yield Heading("Instances")
    counted = [
        ("resolved", report.resolved_instances),
        ("unresolved", report.unresolved_instances),
        ("empty patch", report.empty_patch_instances),
        ("error", report.error_instances),
        ("of them without a verdict", report.infra_failure_instances),
        ("without a prediction", len(report.incomplete_ids)),
    ]
    yield Grid(["", "instances"], [[Cell(name), Cell(f"{count:,}")] for name, count in counted])
    reasons = Counter(report.failure_reasons.values())
    if reasons:
        yield Heading("Reasons")
        yield Grid(["reason", "instances"], [[Cell(why), Cell(str(count))] for why, count in reasons.most_common()])
    yield Heading("By instance")
    yield Grid(["instance", "ended", "reason"], list(_rows(report)))


def _rows(report: StoredGrading) -> Iterator[list[Cell]]:
    lists: list[tuple[str, list[str], Tone]] = [
        ("error", report.error_ids, "bad"),
        ("unresolved", report.unresolved_ids, "bad"),
        ("empty patch", report.empty_patch_ids, "bad"),
        ("without a prediction", report.incomplete_ids, "faint"),
        ("resolved", report.resolved_ids, "good"),
    ]
    for ended, names, tone in lists:
        for name in names:
            yield [Cell(name), Cell(ended, tone), Cell(report.failure_reasons.get(name, ""), "faint")]
