"""A report for a reader: combinations that came out alike in one row, then what templates do to the past.

Units   shares in percent; the worst of a row's templates.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from paddock.lab.fidelity.records import VERDICTS, Combination, FidelityReport, Figures
from paddock.types import JsonObject

HEADER = (
    "harness",
    "dialect",
    "templates",
    "verdict",
    "append-only",
    "forks",
    "dropped",
    "dropped whole",
    "in samples",
    "tokenised",
    "not exact",
)
"""`forks`, `dropped ...`: of all runs of one combination. `in samples`: how many samples a token is in. `tokenised`: by
the length of the final conversation."""
TRAITS_HEADER = ("template", "what it does to the past")


class TableRow(NamedTuple):
    """Cells under `HEADER`."""

    cells: tuple[str, ...]


def rows(report: FidelityReport) -> Iterator[TableRow]:
    """In the report's order."""
    all_templates = [item.template for item in report.templates]
    groups: dict[tuple[str, ...], list[Combination]] = {}
    for item in report.combinations:
        groups.setdefault((item.subject, item.dialect, item.verdict, _worse([item])), []).append(item)
    order = list(dict.fromkeys((item.subject, item.dialect) for item in report.combinations))
    for subject, dialect, verdict, worse in sorted(groups, key=lambda key: order.index((key[0], key[1]))):
        group = groups[subject, dialect, verdict, worse]
        totals = [item.total for item in group]
        figures = _cells(totals) if all(item.calls for item in totals) else ("-",) * 6
        templates = _templates([item.template for item in group], all_templates)
        yield TableRow((subject, dialect, templates, verdict, *figures, worse))


def _cells(totals: Sequence[Figures]) -> tuple[str, ...]:
    """The worst of each."""
    return (
        f"{min(figures.append_only for figures in totals):.1%}",
        str(max(figures.forks for figures in totals)),
        f"{max(_share(figures.dropped_tokens, figures.sampled_tokens) for figures in totals):.1%}",
        f"{max(_share(figures.dropped_whole_tokens, figures.sampled_tokens) for figures in totals):.1%}",
        f"{max(figures.prefix_factor for figures in totals):.2f}",
        f"{max(figures.tokenising for figures in totals):.2f}x",
    )


def trait_rows(report: FidelityReport) -> Iterator[TableRow]:
    for template in report.templates:
        yield TableRow((template.template, "; ".join(template.traits.describe()) or "nothing"))


def lines(report: FidelityReport) -> Iterator[str]:
    """What was not tried, what ended runs too early, how prompts differ from the template's own, and the sum."""
    for subject, why in report.skipped.items():
        yield f"{subject}: skipped: {why}"
    problems: dict[tuple[str, str, str], list[str]] = {}
    for group in report.combinations:
        for run in group.runs:
            for problem in [*([run.problem] if run.problem else []), *run.differences]:
                problems.setdefault((group.subject, group.template, problem), []).append(run.scenario)
    for (subject, template, problem), names in problems.items():
        yield f"{subject} over {template}: {problem} ({', '.join(names)})"
    counts = {verdict: sum(group.verdict == verdict for group in report.combinations) for verdict in VERDICTS}
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    runs = sum(len(group.runs) for group in report.combinations)
    yield f"{len(report.combinations)} combinations, {runs} runs in {report.wall_s:.1f} s: {summary}"


def as_json(report: FidelityReport) -> JsonObject:
    """All of it, with the rates that follow."""
    return {
        "combinations": [_combination(entry) for entry in report.combinations],
        "templates": [
            {
                "template": entry.template,
                "traits": entry.traits.model_dump(mode="json"),
                "described": entry.traits.describe(),
            }
            for entry in report.templates
        ],
        "skipped": report.skipped,
        "wall_s": report.wall_s,
    }


def _combination(combination: Combination) -> JsonObject:
    runs = [
        {
            "scenario": run.scenario,
            "verdict": run.verdict,
            "requests": run.requests,
            "branches_by_design": run.branches_by_design,
            "problem": run.problem,
            "differences": run.differences,
            **_figures(run.figures),
        }
        for run in combination.runs
    ]
    head = {"subject": combination.subject, "dialect": combination.dialect, "template": combination.template}
    return {**head, "verdict": combination.verdict, **_figures(combination.total), "runs": runs}


def _figures(figures: Figures) -> JsonObject:
    counts = {key: value for key, value in figures.__dict__.items() if key != "verdict"}
    rates = {name: getattr(figures, name) for name in ("append_only", "forks", "prefix_factor", "tokenising")}
    return {**counts, **rates}


def _worse(group: Iterable[Combination]) -> str:
    return ", ".join(dict.fromkeys(run.scenario for combination in group for run in combination.worse))


def _templates(names: Sequence[str], everything: Sequence[str]) -> str:
    if len(names) == len(everything) > 1:
        return f"all {len(names)}"
    left_out = [name for name in everything if name not in names]
    if len(names) > 3 and len(left_out) <= 3:
        return f"all but {', '.join(left_out)}"
    return ", ".join(names)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
