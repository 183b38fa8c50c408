"""`paddock judge check --json`: how often a judge agrees with known preferences, as blocks.

Form    `Calibration.to_json` of `paddock.resources_servers.genrm.calibration`. Shares from 0 to 1, with intervals of
        95 %.
"""

from collections.abc import Iterator

from paddock.viewer.blocks import Block, Cell, Grid, Heading, LabelledValue, LabelledValues, Tone
from paddock.viewer.reports.forms import StoredPart


class StoredShare(StoredPart):
    share: float | None
    """None: there was nothing to count."""
    ci95: tuple[float, float] | None
    hits: int
    of: int


class StoredCalibration(StoredPart):
    pairs: int
    failed: dict[str, int]
    ties: int
    agreement: StoredShare
    shown_first: StoredShare
    consistent: StoredShare
    abstained: StoredShare
    by_strength: dict[str, StoredShare]


def verdict(report: StoredCalibration) -> LabelledValue:
    """One line, and its tone."""
    answered = report.pairs - sum(report.failed.values())
    if report.agreement.share is None:
        return LabelledValue("judge", f"no agreement to count: {answered} of {report.pairs} pairs were answered", "bad")
    tone: Tone = "bad" if report.agreement.ci95 and report.agreement.ci95[1] <= 0.5 else "plain"
    return LabelledValue("judge", f"agrees with {_share(report.agreement)} of the preferences", tone)


def blocks(report: StoredCalibration) -> Iterator[Block]:
    failed = ", ".join(f"{kind} {count}" for kind, count in sorted(report.failed.items()))
    yield LabelledValues(
        [
            LabelledValue("pairs", f"{report.pairs}, of them ties {report.ties}"),
            LabelledValue("failed", failed or "none", "bad" if failed else "plain"),
        ]
    )
    yield Heading("Shares")
    named = [
        ("agrees with the preference", report.agreement),
        *((f"of strength {strength}", share) for strength, share in sorted(report.by_strength.items())),
        ("prefers what stood first", report.shown_first),
        ("says the same in both orders", report.consistent),
        ("says nothing", report.abstained),
    ]
    yield Grid(["", "share, and 95 % interval", "hits", "of"], [_row(name, share) for name, share in named])


def _row(name: str, share: StoredShare) -> list[Cell]:
    return [Cell(name), Cell(_share(share)), Cell(str(share.hits)), Cell(str(share.of))]


def _share(share: StoredShare) -> str:
    if share.share is None:
        return "none to count"
    interval = f" [{share.ci95[0]:.3f}, {share.ci95[1]:.3f}]" if share.ci95 else ""
    return f"{share.share:.3f}{interval}"
