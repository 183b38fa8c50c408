"""`paddock swe check`: which rows were accepted, and what is wrong with the others, as blocks.

Form    a line each, `RowReport` of `paddock.resources_servers.swe.checks`. A row's later line replaces its earlier one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from paddock.viewer.blocks import Block, Cell, Fold, Grid, Heading, LabelledValue, TextBlock, Tone, cut
from paddock.viewer.reports.forms import StoredPart

TONES: dict[str, Tone] = {"accepted": "good", "refused": "bad", "failed": "faint"}
MAX_SHOWN = 300
"""Rows whose findings are written out."""
MAX_DETAIL = 4000


class StoredFinding(StoredPart):
    kind: str
    detail: str
    advice: str = ""
    is_refusal: bool = False


class StoredFlake(StoredPart):
    test: str
    side: str
    statuses: list[str]


class StoredRowCheck(StoredPart):
    digest: str
    line: int
    instance_id: str
    ended: str
    findings: list[StoredFinding] = []
    flakes: list[StoredFlake] = []
    needs_fix: list[str] = []
    fail_to_pass: list[str] = []
    pass_to_pass: list[str] = []
    derived: bool = False
    null_s: list[float] = []
    gold_s: list[float] = []
    total_s: float = 0.0


def latest(rows: Sequence[StoredRowCheck]) -> list[StoredRowCheck]:
    by_row = {(row.line, row.instance_id): row for row in rows}
    return sorted(by_row.values(), key=lambda row: row.line)


def verdict(rows: Sequence[StoredRowCheck]) -> LabelledValue:
    """One line, and its tone."""
    counts = Counter(row.ended for row in rows)
    others = "".join(f", {count} {ended}" for ended, count in sorted(counts.items()) if ended != "accepted")
    tone: Tone = "good" if rows and not others else "bad"
    return LabelledValue("rows", f"{counts['accepted']} of {len(rows)} rows accepted{others}", tone)


def blocks(rows: Sequence[StoredRowCheck]) -> Iterator[Block]:
    kinds = Counter(finding.kind for row in rows for finding in row.findings if finding.is_refusal)
    if kinds:
        yield Heading("Why rows were refused")
        yield Grid(["finding", "rows"], [[Cell(kind, "bad"), Cell(str(n))] for kind, n in kinds.most_common()])
    wrong = [row for row in rows if row.ended != "accepted"]
    for row in wrong[:MAX_SHOWN]:
        yield Fold(f"{row.instance_id} (line {row.line}): {row.ended}", list(_findings(row)), tone=_tone(row))
    if len(wrong) > MAX_SHOWN:
        yield TextBlock(f"and {len(wrong) - MAX_SHOWN} more, in the table", "faint")
    noted = [row for row in rows if row.ended == "accepted" and (row.findings or row.flakes)]
    if noted:
        named = [Fold(f"{row.instance_id} (line {row.line})", list(_findings(row)), open=False) for row in noted]
        yield Fold(f"accepted with notes: {len(noted)}", list(named[:MAX_SHOWN]), open=False)
    yield Heading("Rows")
    header = ["line", "row", "ended", "must change", "must stay", "without the fix", "with it", "check", "findings"]
    yield Grid(header, [_row(row) for row in rows])


def _tone(row: StoredRowCheck) -> Tone:
    return TONES.get(row.ended, "bad")


def _findings(row: StoredRowCheck) -> Iterator[Block]:
    for finding in sorted(row.findings, key=lambda one: not one.is_refusal):
        text = f"{finding.kind}: {cut(finding.detail, MAX_DETAIL)}"
        yield TextBlock(text, "bad" if finding.is_refusal else "plain")
        if finding.advice:
            yield TextBlock(f"-> {finding.advice}")
    if row.flakes:
        cells = [[Cell(flake.test), Cell(flake.side), Cell(", ".join(flake.statuses))] for flake in row.flakes]
        yield Grid(["flake", "side", "statuses"], cells)


def _row(row: StoredRowCheck) -> list[Cell]:
    return [
        *(Cell(str(row.line)), Cell(row.instance_id), Cell(row.ended, _tone(row))),
        Cell(f"{len(row.fail_to_pass)}{' (derived)' if row.derived else ''}"),
        *(Cell(str(len(row.pass_to_pass))), Cell(_seconds(row.null_s)), Cell(_seconds(row.gold_s))),
        Cell(_seconds([row.total_s])),
        Cell(", ".join(dict.fromkeys(finding.kind for finding in row.findings)), "faint"),
    ]


def _seconds(runs: Sequence[float]) -> str:
    if not runs or not max(runs):
        return ""
    low, high = min(runs), max(runs)
    return f"{low:.1f} s" if high - low < 0.1 else f"{low:.1f}-{high:.1f} s"
