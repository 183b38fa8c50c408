"""Claims about the HTML page: nothing recorded becomes markup, nothing is loaded, its size is bounded."""

import html.parser
import re
from functools import partial
from pathlib import Path

import pytest

from paddock.cli import main
from paddock.viewer import Block, Fold, page
from paddock.viewer.blocks import Diff, Heading, LabelledValue, LabelledValues, TextBlock
from paddock.viewer.page import POLICY
from paddock.viewer.page import html as to_html

ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h3", "pre", "details", "summary", "div", "span", "p"),
    *("table", "tr", "th", "td"),
}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "class", "open"}
VOID = {"meta"}


class PageParser(html.parser.HTMLParser):
    """Every tag, attribute and text of a page; tags must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(
    params=[(), ("--failed",), ("1-0",), ("--diff", "0-0", "1-0")], ids=lambda given: "".join(given) or "all"
)
def written(seen_run: Path, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    target = tmp_path / "page.html"
    assert main(["show", str(seen_run), *request.param, "--html", str(target)]) == 0
    return target.read_text(encoding="utf-8")


def test_recorded_text_is_never_markup(written: str) -> None:
    found = PageParser(written)
    assert found.tags <= ALLOWED
    assert found.attributes <= ATTRIBUTES
    assert any('<script>alert("x")</script>' in text for text in found.texts)


def test_nothing_is_loaded_and_nothing_can_run(written: str) -> None:
    assert POLICY.startswith("default-src 'none'; ")
    assert f'content="{POLICY}"' in written
    style = re.findall(r"<style>(.*?)</style>", written, re.DOTALL)
    assert len(style) == 1
    assert "url(" not in style[0]
    assert "@import" not in style[0]
    # Addresses are there as text that a policy wrote, and nowhere else.
    assert not re.search(r"""(src|href|srcset|action)\s*=\s*["']""", written)


def test_hiding_needs_no_script(seen_run: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    assert main(["show", str(seen_run), "--html", str(target)]) == 0
    text = target.read_text()
    assert text.count("<details") == text.count("</details>") >= 8
    for row in ("0-0", "0-1", "1-0", "1-1", "2-0", "2-1", "3-0", "3-1"):
        assert f"rollout {row} " in text


def test_a_page_has_an_end_and_says_what_it_left_out() -> None:
    made: list[int] = []

    def part(number: int) -> list[Block]:
        made.append(number)
        return [TextBlock("x" * 1000)]

    parts = [partial(part, number) for number in range(10)]
    text = b"".join(page("many", parts, max_bytes=3500)).decode()
    assert text.count("<pre") == 3
    assert "7 more left out" in text
    assert made == [0, 1, 2, 3]
    assert text.endswith("</html>\n")


def test_every_block_escapes_what_it_is_given() -> None:
    bad = "<b>&\x07"
    blocks: list[Block] = [
        Heading(bad),
        TextBlock(bad),
        Diff(f"+{bad}"),
        LabelledValues([LabelledValue(bad, bad)]),
        Fold(bad, []),
    ]
    text = to_html(blocks)
    assert "<b>" not in text
    assert text.count("&lt;b&gt;&amp;␇") == 6


def test_a_mistake_spoils_no_file(seen_run: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_text("mine")
    assert main(["show", str(seen_run), "nobody", "--html", str(target)]) == 2
    assert main(["show", str(tmp_path), "--html", str(target)]) == 2
    assert target.read_text() == "mine"
