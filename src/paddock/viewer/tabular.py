"""Tables of text as Markdown and LaTeX, for papers and pull requests.

Law     every cell is text: what would be markup is escaped, and a control character is made visible.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paddock.viewer.blocks import visible

_LATEX = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "\\": "\\textbackslash{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
}
_MARKDOWN = "\\`*_{}[]<>#|"


class TextTable(NamedTuple):
    """A table whose first column names its rows."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def markdown(table: TextTable) -> str:
    """A heading and a pipe table, as GitHub reads it."""
    lines = [_pipes(table.header), "|" + "|".join(["---", *["---:"] * (len(table.header) - 1)]) + "|"]
    return "\n".join([f"### {_escape_markdown(table.title)}", "", *lines, *map(_pipes, table.rows), ""])


def latex(table: TextTable) -> str:
    """A `tabular` in a `table` with its caption; needs the package booktabs."""
    columns = "l" + "r" * (len(table.header) - 1)
    rows = [" & ".join(map(_escape_latex, row)) + r" \\" for row in (table.header, *table.rows)]
    body = [r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_escape_latex(table.title)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            *body,
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_escape_markdown, cells)) + " |"


def _escape_markdown(text: str) -> str:
    return "".join(f"\\{char}" if char in _MARKDOWN else char for char in _one_line(text))


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(visible(text).split())
