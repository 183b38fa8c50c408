"""A report as JSON for its page: its verdict, what could not be read, and blocks, each with its type."""

from pathlib import Path
from typing import Any

from paddock.viewer.blocks import Block, Fold, Grid, LabelledValues
from paddock.viewer.reports import ReportKind, read_report


def report_page(path: Path, kind: ReportKind) -> dict[str, Any]:
    """Everything of a report."""
    view = read_report(path, kind)
    return {
        "verdict": view.verdict._asdict(),
        "warnings": view.warnings,
        "blocks": [_block(block) for block in view.blocks],
    }


def _block(block: Block) -> dict[str, Any]:
    # The JSON library takes no named tuples.
    value = {"type": type(block).__name__, **block._asdict()}
    if isinstance(block, Fold):
        value["blocks"] = [_block(part) for part in block.blocks]
    elif isinstance(block, Grid):
        value["rows"] = [[list(cell) for cell in row] for row in block.rows]
    elif isinstance(block, LabelledValues):
        value["facts"] = [list(fact) for fact in block.facts]
    return value
