"""Blocks as one HTML file that needs nothing else: no script, no request, no font, no image.

Law     every text is made harmless and escaped; a content policy in the page forbids anything to be loaded or run.
        Hiding is `<details>`. Rollouts are written one by one, until `MAX_BYTES`; the others are counted.
"""

from collections.abc import Callable, Iterable, Iterator
from html import escape
from itertools import chain

from paddock.viewer.blocks import Block, Cell, Diff, Fold, Grid, Heading, LabelledValues, TextBlock, TwoColumns, visible
from paddock.viewer.terminal import diff_tone

MAX_BYTES = 32 << 20
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --good: #1a7f37; --bad: #cf222e; --faint: #6e7781; --call: #0550ae; --edge: #8884; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #f85149; --faint: #8b949e; --call: #79c0ff; } }
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 1200px; padding: 0 1rem; }
pre { font: 12px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; }
details { border-left: 2px solid var(--edge); padding-left: .7rem; margin: .35rem 0; }
summary { cursor: pointer; }
table { border-collapse: collapse; margin: .3rem 0; }
th, td { text-align: left; vertical-align: top; padding: .1rem .8rem .1rem 0; overflow-wrap: anywhere; }
.beside { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; } .beside > div { min-width: 0; }
.good { color: var(--good); } .bad { color: var(--bad); } .faint { color: var(--faint); }
.inside { margin-left: 1.2rem; } .call { color: var(--call); } .strong { font-weight: 600; }
"""


Part = Callable[[], list[Block]]
"""A function that makes blocks, called only if the page has room for them."""


def page(title: str, parts: Iterable[Part], *, max_bytes: int = MAX_BYTES) -> Iterator[bytes]:
    """The bytes of the page, part by part, until the next part would exceed `max_bytes`."""
    yield _start(title).encode()
    spent, left = 0, 0
    for part in parts:
        if left:
            left += 1
            continue
        data = html(part()).encode()
        if spent + len(data) > max_bytes:
            left = 1
            continue
        spent += len(data)
        yield data
    if left:
        yield f'<p class="faint">{left} more left out: the page is full.</p>\n'.encode()
    yield b"</body>\n</html>\n"


def html(blocks: Iterable[Block]) -> str:
    return "".join(chain.from_iterable(map(_html, blocks)))


def _start(title: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{_safe(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{_safe(title)}</h1>\n"
    )


def _html(block: Block) -> Iterator[str]:
    if isinstance(block, Heading):
        yield f'<h3 class="{block.tone}">{_safe(block.text)}</h3>\n'
    elif isinstance(block, TextBlock):
        inside = " inside" if block.margin else ""
        yield f'<pre class="{block.tone}{inside}">{_safe(block.text)}</pre>\n'
    elif isinstance(block, Diff):
        lines = (f'<span class="{diff_tone(line)}">{_safe(line)}</span>' for line in block.text.split("\n"))
        yield "<pre>" + "\n".join(lines) + "</pre>\n"
    elif isinstance(block, Fold):
        is_open = " open" if block.open else ""
        yield f'<details{is_open}><summary class="{block.tone}">{_safe(block.title)}</summary>\n'
        yield html(block.blocks)
        yield "</details>\n"
    elif isinstance(block, TwoColumns):
        yield f'<div class="beside"><div>{html(block.left)}</div><div>{html(block.right)}</div></div>\n'
    else:
        yield _table(block)


def _table(block: LabelledValues | Grid) -> str:
    if isinstance(block, LabelledValues):
        rows = [f"<tr><th>{_safe(fact.label)}</th>{_cell(Cell(fact.text, fact.tone))}</tr>" for fact in block.facts]
    else:
        rows = ["<tr>" + "".join(f"<th>{_safe(name)}</th>" for name in block.header) + "</tr>"]
        rows += ["<tr>" + "".join(map(_cell, row)) + "</tr>" for row in block.rows]
    return "<table>\n" + "\n".join(rows) + "\n</table>\n"


def _cell(cell: Cell) -> str:
    return f'<td class="{cell.tone}"><pre>{_safe(cell.text)}</pre></td>'


def _safe(text: str) -> str:
    return escape(visible(text))
