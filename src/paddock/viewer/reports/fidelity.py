"""`paddock fidelity --json`: how exact the tokens of harnesses are, as blocks.

Form    `paddock.lab.fidelity.tables.as_json`. Verdicts from the best to the worst: exact, refused, split, differs,
        masked, failed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from paddock.viewer.blocks import Block, Cell, Fold, Grid, Heading, LabelledValue, LabelledValues, Tone
from paddock.viewer.reports.forms import StoredPart

ORDER = ("failed", "masked", "differs", "split", "refused", "exact")
TONES: dict[str, Tone] = {"exact": "good", "split": "plain", "refused": "faint"}
MAX_PROBLEMS = 200


class StoredFigures(StoredPart):
    calls: int
    continuing: int
    branches: int
    samples: int
    sampled_tokens: int
    dropped_tokens: int
    dropped_whole_tokens: int
    unproven_tokens: int
    sample_tokens: int
    distinct_tokens: int
    tokenised_chars: int
    final_chars: int
    append_only: float
    forks: int
    prefix_factor: float
    tokenising: float


class StoredScenario(StoredFigures):
    scenario: str
    verdict: str
    requests: int
    branches_by_design: int
    problem: str | None
    differences: list[str]


class StoredCombination(StoredFigures):
    subject: str
    dialect: str
    template: str
    verdict: str
    runs: list[StoredScenario]


class StoredTraits(StoredPart):
    template: str
    traits: dict[str, object]
    described: list[str]


class StoredFidelity(StoredPart):
    combinations: list[StoredCombination]
    templates: list[StoredTraits]
    skipped: dict[str, str]
    wall_s: float


def verdict(report: StoredFidelity) -> LabelledValue:
    """One line, and its tone."""
    if not report.combinations:
        return LabelledValue("fidelity", "nothing was tried", "faint")
    counts = _counts(report.combinations)
    total = sum(counts.values())
    worst = next(name for name in [*sorted(set(counts) - set(ORDER)), *ORDER] if counts[name])
    if worst == "exact":
        return LabelledValue("fidelity", f"exact: all {total} combinations", "good")
    others = ", ".join(f"{count} {name}" for name, count in _ordered(counts))
    return LabelledValue("fidelity", f"{others}, of {total} combinations", TONES.get(worst, "bad"))


def blocks(report: StoredFidelity) -> Iterator[Block]:
    runs = sum(len(one.runs) for one in report.combinations)
    yield LabelledValues(
        [
            LabelledValue("runs", f"{runs:,}, in {report.wall_s:.1f} s"),
            *(LabelledValue("left out", f"{subject}: {why}", "faint") for subject, why in report.skipped.items()),
        ]
    )
    problems = list(_problems(report.combinations))
    if problems:
        yield Heading("Problems and differences")
        yield Grid(["harness", "template", "what", "in"], problems[:MAX_PROBLEMS])
    yield Heading("Harnesses")
    yield Grid(["harness", "dialect", *ORDER[::-1]], list(_by_harness(report.combinations)))
    yield Heading("Combinations")
    yield Grid(
        [
            *("harness", "dialect", "template", "verdict", "append-only", "forks", "dropped", "dropped whole"),
            *("in samples", "tokenised", "not exact"),
        ],
        [_row(one) for one in sorted(report.combinations, key=_rank)],
    )
    described = [[Cell(one.template), Cell("; ".join(one.described) or "nothing")] for one in report.templates]
    yield Fold("what each template does to the past", [Grid(["template", "what it does"], described)], open=False)


def _counts(combinations: Iterable[StoredCombination]) -> Counter[str]:
    return Counter(one.verdict for one in combinations)


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    """Worst first; words of another version stand before all."""
    return sorted(counts.items(), key=lambda item: ORDER.index(item[0]) if item[0] in ORDER else -1)


def _rank(one: StoredCombination) -> int:
    return ORDER.index(one.verdict) if one.verdict in ORDER else -1


def _problems(combinations: Iterable[StoredCombination]) -> Iterator[list[Cell]]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in combinations:
        for run in one.runs:
            for what in [*([run.problem] if run.problem else []), *run.differences]:
                found.setdefault((f"{one.subject} {one.dialect}", one.template, what), []).append(run.scenario)
    for (subject, template, what), names in found.items():
        yield [Cell(subject), Cell(template), Cell(what, "bad"), Cell(f"{len(names)}: {', '.join(names)}", "faint")]


def _by_harness(combinations: Iterable[StoredCombination]) -> Iterator[list[Cell]]:
    parts: dict[tuple[str, str], list[StoredCombination]] = {}
    for one in combinations:
        parts.setdefault((one.subject, one.dialect), []).append(one)
    for (subject, dialect), own in parts.items():
        counts = _counts(own)
        cells = [Cell(str(counts[name] or ""), TONES.get(name, "bad")) for name in ORDER[::-1]]
        yield [Cell(subject), Cell(dialect), *cells]


def _row(one: StoredCombination) -> list[Cell]:
    worse = dict.fromkeys(run.scenario for run in one.runs if _is_worse(run))
    return [
        *(Cell(one.subject), Cell(one.dialect), Cell(one.template), Cell(one.verdict, TONES.get(one.verdict, "bad"))),
        Cell(f"{one.append_only:.1%}"),
        Cell(str(one.forks)),
        Cell(_share(one.dropped_tokens, one.sampled_tokens)),
        Cell(_share(one.dropped_whole_tokens, one.sampled_tokens)),
        Cell(f"{one.prefix_factor:.2f}"),
        Cell(f"{one.tokenising:.2f}x"),
        Cell(f"all {len(worse)}" if len(worse) == len(one.runs) > 1 else ", ".join(worse), "faint"),
    ]


def _is_worse(run: StoredScenario) -> bool:
    """Branches that the client itself starts are as good as one."""
    meant = run.verdict == "split" and run.forks <= run.branches_by_design
    return run.verdict != "exact" and not meant


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
