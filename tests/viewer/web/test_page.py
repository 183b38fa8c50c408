"""Claims about the page in a real browser: what it shows, follows and refuses to run, and that a keyboard is enough.

Needs Chromium (PADDOCK_CHROMIUM, else `chromium` on the path) and the package playwright.
"""

import asyncio
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.viewer.conftest import HOSTILE
from tests.viewer.web.large_run import write_run

from paddock.collect.folder import INDEX, ROLLOUTS
from paddock.server.access import make_access
from paddock.server.sockets import Address, bind
from paddock.viewer.web import Catalog, serve_view

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
CHROMIUM = os.environ.get("PADDOCK_CHROMIUM") or shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: PADDOCK_CHROMIUM, or `chromium` on the path"),
]
WAIT_MS = 20_000
OWN = ("http://127.0.0.1:", "data:", "about:")
PAGES = (
    ("#/", ".table tbody tr"),
    ("#/run?run=runs%2Fseen", ".table tbody tr"),
    ("#/rollout?run=runs%2Fseen&at=0-0", "h2"),
    ("#/report?run=runs%2Frows.report.jsonl", ".table tbody tr"),
)
"""Addresses, and what is there when they are shown."""


class ServedView:
    """A view that is served from a thread of its own until the block ends; its page has been left then."""

    def __init__(self, page: Any, root: Path) -> None:
        self._page = page
        self._root = root
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self.url = ""

    def __enter__(self) -> "ServedView":
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._page.goto("about:blank")
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        access = make_access(None, make=True)
        async with serve_view(Catalog([self._root]), bind("view", Address("127.0.0.1", 0)), access=access) as url:
            self.url = url
            self._started.set()
            await self._end.wait()


@pytest.fixture(scope="module")
def browser(seen_run: Path) -> Iterator[Any]:
    """Opened after the run was made: Playwright's loop runs in this thread from then on, and another can't."""
    assert seen_run.is_dir()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page whose errors fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    wrong: list[str] = []

    def dismiss(dialog: Any) -> None:
        wrong.append(f"dialog {dialog.message}")
        dialog.dismiss()

    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("dialog", dismiss)
    page.on("request", lambda request: None if request.url.startswith(OWN) else wrong.append(request.url))
    yield page
    context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def large_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "large"
    write_run(folder, rollouts=10_000)
    return folder


@pytest.fixture
def runs(seen_run: Path, large_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(seen_run, tmp_path / "runs" / "seen")
    # Nothing is written there.
    shutil.copytree(large_run, tmp_path / "runs" / "large", copy_function=os.link)
    write_row_checks(tmp_path / "runs" / "rows.report.jsonl", rows=100)
    return tmp_path / "runs"


def write_row_checks(file: Path, *, rows: int) -> None:
    """As `paddock swe check` does; the third row is refused."""
    finding = {"kind": "gold_fails", "detail": HOSTILE, "advice": "mend the patch", "is_refusal": True}
    lines = (
        {
            "digest": f"{line}",
            "line": line,
            "instance_id": f"made__made-{line}",
            "ended": "refused" if line == 3 else "accepted",
            "findings": [finding] if line == 3 else [],
        }
        for line in range(1, rows + 1)
    )
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


@pytest.fixture
def live_run(tmp_path: Path) -> Path:
    """Four of forty rollouts; `whole`, beside its runs, has the others' lines."""
    write_run(tmp_path / "whole", rollouts=40)
    run = tmp_path / "runs" / "live"
    run.mkdir(parents=True)
    shutil.copy(tmp_path / "whole" / ROLLOUTS, run / ROLLOUTS)
    (run / INDEX).write_bytes(b"".join(index_lines(tmp_path / "whole")[:4]))
    return run


def index_lines(run: Path) -> list[bytes]:
    return (run / INDEX).read_bytes().splitlines(keepends=True)


def cells(page: Any, column: int) -> list[str]:
    return [str(text) for text in page.locator(f".table tbody tr:not(.space) td:nth-child({column})").all_inner_texts()]


def expect_text(page: Any, selector: str, text: str) -> None:
    sync_api.expect(page.locator(selector).first).to_contain_text(text, timeout=WAIT_MS)


def test_a_run_opens_is_filtered_and_leads_to_its_rollouts(page: Any, runs: Path) -> None:
    with ServedView(page, runs) as view:
        page.goto(view.url)
        assert "token" not in page.evaluate("() => location.href")
        page.get_by_role("link", name="runs/seen").click()
        expect_text(page, "main", "8 of 8 rollouts")
        page.get_by_role("button", name="reward above 0").click()
        expect_text(page, "main", "of 8 rollouts, mean reward 1")
        page.get_by_role("button", name="reward above 0").click()
        page.get_by_label("filter rollouts").fill("calc-3")
        expect_text(page, "main", "2 of 8 rollouts")
        assert cells(page, 5) == ["infra", "infra"]
        filtered = page.url
        page.get_by_label("filter rollouts").fill("")
        page.get_by_label("search in texts and patches").fill("sed -i s/-/+/")
        page.get_by_label("search in texts and patches").press("Enter")
        expect_text(page, "main", "of 8 rollouts")
        sync_api.expect(page.locator(".table tbody tr:not(.space)")).to_have_count(2)
        page.get_by_role("link", name="0-0").click()
        expect_text(page, "h1", "calc__calc-1 reward 1, resolved")
        expect_text(page, "article > pre.diff", "+    return a + b")
        expect_text(page, "nav", "of 2")
        # The address alone brings the state back.
        page.goto(filtered)
        expect_text(page, "main", "2 of 8 rollouts")


def test_a_link_from_elsewhere_is_followed_once_the_token_is_there(browser: Any, runs: Path) -> None:
    page = browser.new_context().new_page()  # one whose refused request is no failure of the test
    page.set_default_timeout(WAIT_MS)
    with ServedView(page, runs) as view:
        page.goto(view.url.partition("#")[0] + "#/rollout?run=runs%2Fseen&at=0-0")
        expect_text(page, "main", "needs the address that `paddock view` printed")
        page.goto(view.url)
        expect_text(page, "h1", "calc__calc-1")
        assert page.url.endswith("#/rollout?run=runs%2Fseen&at=0-0")
    page.context.close()


def test_what_a_rollout_says_runs_nothing(page: Any, runs: Path) -> None:
    with ServedView(page, runs) as view:
        page.goto(view.url)
        page.goto(view.url.partition("#")[0] + "#/rollout?run=runs%2Fseen&at=1-0")
        expect_text(page, "h1", "evil__evil-1")
        expect_text(page, "article", "turn 1")
        for summary in page.locator("details > summary").all():
            summary.click()
        shown = page.locator("article").inner_text()
        assert '<script>alert("x")</script>' in shown
        assert "\\x202e" in shown and "\u202e" not in shown
        assert page.locator("article img, article script, article iframe").count() == 0
        assert "onerror=alert(1)" in HOSTILE


def test_a_run_is_followed_while_it_is_written(page: Any, live_run: Path, tmp_path: Path) -> None:
    run, lines = live_run, index_lines(tmp_path / "whole")
    with ServedView(page, tmp_path / "runs") as view:
        page.goto(view.url)
        page.get_by_role("link", name="runs/live").click()
        expect_text(page, "main", "4 of 4 rollouts")
        with (run / INDEX).open("ab") as index:
            index.write(b"".join(lines[4:30]) + lines[30][:50])
        expect_text(page, "main", "30 of 30 rollouts")
        with (run / INDEX).open("ab") as index:
            index.write(lines[30][50:] + b"\0\xff damaged\n")
        expect_text(page, "main", "31 of 31 rollouts")
        expect_text(page, ".error", "1 damaged lines were left out")
        # A merge, or a repair, puts another file there.
        (run / "new").write_bytes(b"".join(lines[:10]))
        (run / "new").replace(run / INDEX)
        expect_text(page, "main", "10 of 10 rollouts")
        sync_api.expect(page.locator(".error")).to_have_count(0, timeout=WAIT_MS)


def test_what_is_typed_stays_while_rows_come(page: Any, live_run: Path, tmp_path: Path) -> None:
    run, lines = live_run, index_lines(tmp_path / "whole")

    def grow(count: int) -> None:
        with (run / INDEX).open("ab") as index:
            index.write(b"".join(lines[count - 4 : count]))

    with ServedView(page, tmp_path / "runs") as view:
        page.goto(view.url)
        page.get_by_role("link", name="runs/live").click()
        expect_text(page, "main", "4 of 4 rollouts")
        field = page.get_by_label("search in texts and patches")
        field.press_sequentially("made__ma")
        grow(8)
        expect_text(page, "main", "8 of 8 rollouts")
        field.press_sequentially("de-1")
        field.press("Enter")
        expect_text(page, "main", "4 of 8 rollouts")
        page.get_by_role("link", name="1-0").click()
        page.get_by_role("button", name="note", exact=True).click()
        note = page.get_by_role("textbox", name="note")
        note.press_sequentially("half of ")
        grow(12)
        expect_text(page, "nav", "of 4")
        page.wait_for_timeout(1500)
        note.press_sequentially("a note")
        assert note.input_value() == "half of a note"


def test_an_edit_is_shown_as_a_diff_and_a_file_leads_to_its_turn(page: Any, runs: Path) -> None:
    with ServedView(page, runs) as view:
        page.goto(view.url)
        page.goto(view.url.partition("#")[0] + "#/rollout?run=runs%2Fseen&at=0-0")
        expect_text(page, ".turn >> nth=1", "+a + b")
        assert page.locator(".turn pre.diff .good").inner_text().strip() == "+a + b"
        file = page.locator("tr", has_text="/testbed/calc.py")
        file.get_by_role("button", name="turn 2").click()
        sync_api.expect(page.locator(".turn >> nth=1")).to_be_in_viewport()
        assert page.url.endswith("turn=2")
        page.reload()
        sync_api.expect(page.locator(".turn >> nth=1")).to_be_in_viewport(ratio=0.5)


def test_a_keyboard_is_enough(page: Any, runs: Path) -> None:
    with ServedView(page, runs) as view:
        page.goto(view.url)
        page.wait_for_selector(".table tbody tr")
        page.keyboard.press("/")
        page.keyboard.type("seen")
        page.keyboard.press("Tab")
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement.textContent") == "runs/seen":
                break
        page.keyboard.press("Enter")
        expect_text(page, "main", "8 of 8 rollouts")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect_text(page, "nav", "2 of 8")
        first = page.locator("h1").inner_text()
        page.keyboard.press("n")
        expect_text(page, "nav", "3 of 8")
        page.keyboard.press("p")
        expect_text(page, "nav", "2 of 8")
        assert page.locator("h1").inner_text() == first
        page.keyboard.press("Escape")
        expect_text(page, "main", "8 of 8 rollouts")
        page.keyboard.press("Escape")
        expect_text(page, "h1", "Runs")


def test_a_report_is_its_verdict_then_its_tables_and_is_followed(page: Any, runs: Path) -> None:
    with ServedView(page, runs) as view:
        page.goto(view.url)
        expect_text(page, "tr:has-text('rows.report.jsonl')", "99 of 100 rows accepted, 1 refused")
        page.keyboard.press("/")
        page.keyboard.type("report")
        for _ in range(10):
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement.textContent") == "runs/rows.report.jsonl":
                break
        page.keyboard.press("Enter")
        expect_text(page, ".verdict", "99 of 100 rows accepted, 1 refused")
        expect_text(page, "details[open]", '<script>alert("x")</script>')
        page.keyboard.press("/")
        page.keyboard.type("made-10")
        sync_api.expect(page.locator(".table tbody tr:not(.space)")).to_have_count(2)
        write_row_checks(runs / "rows.report.jsonl", rows=101)
        expect_text(page, ".verdict", "100 of 101 rows accepted, 1 refused")
        with (runs / "rows.report.jsonl").open("a") as report:
            report.write("damaged\n")
        expect_text(page, ".error", "1 lines were left out")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        expect_text(page, "h1", "Runs")


@pytest.mark.parametrize("name", ["constructor", "toString", "__proto__", "none"])
def test_a_page_that_is_not_there_is_named(page: Any, runs: Path, name: str) -> None:
    with ServedView(page, runs) as view:
        page.goto(view.url)
        page.goto(view.url.partition("#")[0] + f"#/{name}")
        expect_text(page, "main", f"There is no page {name}")


def test_a_note_stays(page: Any, runs: Path) -> None:
    with ServedView(page, runs) as view:
        page.goto(view.url)
        page.goto(view.url.partition("#")[0] + "#/rollout?run=runs%2Fseen&at=0-0")
        page.get_by_role("button", name="wrong verdict").click()
        page.get_by_role("button", name="note", exact=True).click()
        page.get_by_role("textbox", name="note").fill("<b>the test is flaky</b>")
        page.get_by_role("textbox", name="note").blur()
        # Leaving the page does not take back what is on its way.
        page.reload()
        sync_api.expect(page.get_by_role("button", name="wrong verdict")).to_have_attribute("aria-pressed", "true")
        sync_api.expect(page.get_by_role("textbox", name="note")).to_have_value("<b>the test is flaky</b>")
    assert b"flaky" in (runs / "seen" / "notes.jsonl").read_bytes()


def test_an_address_that_comes_before_the_first_paint_is_followed(page: Any, runs: Path) -> None:
    page.add_init_script("window.requestAnimationFrame = () => 0; window.setTimeout = () => 0;")
    with ServedView(page, runs) as view:
        page.goto(view.url)
        page.goto(view.url.partition("#")[0] + "#/rollout?run=runs%2Fseen&at=0-0")
        sync_api.expect(page.locator("nav")).to_contain_text("runs/seen", timeout=WAIT_MS)


def test_members_stand_side_by_side(page: Any, runs: Path) -> None:
    with ServedView(page, runs) as view:
        page.goto(view.url)
        page.goto(view.url.partition("#")[0] + "#/rollout?run=runs%2Fseen&at=0-0")
        page.get_by_role("link", name="beside").first.click()
        sync_api.expect(page.locator("article")).to_have_count(2)
        one, other = page.locator("article").all()
        left, right = one.bounding_box(), other.bounding_box()
        assert left["x"] + left["width"] <= right["x"]
        expect_text(page, "article >> nth=1", "0-1")


def test_the_same_row_of_another_run_stands_beside_it(page: Any, runs: Path) -> None:
    shutil.copytree(runs / "seen", runs / "again")
    with ServedView(page, runs) as view:
        page.goto(view.url)
        page.goto(view.url.partition("#")[0] + "#/rollout?run=runs%2Fseen&at=1-1")
        page.get_by_label("the same row in another run").select_option("runs/large")
        expect_text(page, "main", "runs/large has no row evil__evil-1")
        page.get_by_label("the same row in another run").select_option("runs/again")
        sync_api.expect(page.locator("article")).to_have_count(2)
        expect_text(page, "article >> nth=1", "runs/again 1-")
        page.reload()
        sync_api.expect(page.locator("article")).to_have_count(2)
        page.get_by_label("the same row in another run").select_option("")
        sync_api.expect(page.locator("article")).to_have_count(1)


def test_an_overview_says_whose_failures_were_and_where_time_went(page: Any, runs: Path) -> None:
    with ServedView(page, runs) as view:
        page.goto(view.url)
        page.goto(view.url.partition("#")[0] + "#/run?run=runs%2Fseen")
        page.get_by_text("overview:").click()
        overview = page.locator("details", has_text="overview:")
        row = overview.locator("tr", has_text="scripted")
        row.wait_for()
        assert row.locator("td").all_inner_texts() == [
            "infra",
            "scripted",
            "verify",
            "2",
            "the grader's <machine> died",
        ]
        expect_text(page, "details", "calc/code")
        page.goto(view.url.partition("#")[0] + "#/run?run=runs%2Flarge")
        page.get_by_text("overview:").click()
        row = page.locator("details tr", has_text="model")
        row.first.wait_for()
        assert row.first.locator("td").all_inner_texts() == ["model", "3.0 s"]


def test_tokens_and_cost_have_columns_and_totals_where_they_are_known(page: Any, runs: Path) -> None:
    known = ["cached in", "reasoned", "cost"]
    with ServedView(page, runs) as view:
        page.goto(view.url)
        for run, titles in (("large", known), ("seen", [])):
            page.goto(view.url.partition("#")[0] + f"#/run?run=runs%2F{run}")
            expect_text(page, "h1", run)
            page.wait_for_selector(".table tbody tr:not(.space)")
            heads = page.locator(".table thead th").all_inner_texts()
            assert [head for head in heads if head in known] == titles
            page.get_by_text("overview:").click()
            page.wait_for_selector("details tr:has-text('metric of the verdict')")
            used = dict(
                row.locator("th, td").all_inner_texts() for row in page.locator("details tr:has(th[scope=row])").all()
            )
            assert ("cost" in used) == ("of them cached" in used) == bool(titles)
        page.go_back()
        expect_text(page, "h1", "large")
        page.get_by_text("overview:").click()
        expect_text(page, "details tr:has-text('of them cached')", "4,000,000")
        expect_text(page, "details tr:has-text('of them reasoned')", "300,000")
        expect_text(page, "details tr:has(th[scope=row]):has-text('cost')", "$100.00")
        page.get_by_role("img", name="rollouts ended: 10000 values, the last 10,000").wait_for()


def test_a_training_run_has_curves_that_lead_to_a_steps_rollouts(page: Any, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "trained"
    write_run(run, rollouts=40)
    metrics = [f'{{"step":{n},"trained":true,"groups":[{n - 1}],"metrics":{{"train/kl":0.{n}}}}}' for n in range(1, 10)]
    (run / "metrics.jsonl").write_text("\n".join(metrics) + "\n")
    with ServedView(page, tmp_path / "runs") as view:
        page.goto(view.url)
        page.get_by_role("link", name="runs/trained").click()
        chart = page.locator(".chart .u-over").first
        chart.wait_for()
        box = chart.bounding_box()
        chart.hover(position={"x": box["width"] - 2, "y": 20})
        chart.click(position={"x": box["width"] - 2, "y": 20})
        expect_text(page, "main", "4 of 40 rollouts")
        assert {name.split("-")[0] for name in cells(page, 1)} == {"8"}


@pytest.mark.parametrize("width", [400, 900, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_leaves_the_screen(browser: Any, runs: Path, tmp_path: Path, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    with ServedView(page, runs) as view:
        page.goto(view.url)
        for nth, (address, selector) in enumerate(PAGES):
            page.goto(view.url.partition("#")[0] + address)
            page.wait_for_selector(selector)
            page.screenshot(path=tmp_path / f"{width}-{scheme}-{nth}.png", full_page=True)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    context.close()


def test_a_hundred_megabytes_of_output_are_read_in_pieces(page: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "loud", rollouts=1, turns=1, result_text="\x1b[31mred\x1b[0m " + "y" * 100_000_000)
    received: list[int] = []
    page.on("response", lambda reply: received.append(int(reply.headers.get("content-length", 0))))
    with ServedView(page, tmp_path / "runs") as view:
        page.goto(view.url)
        page.goto(view.url.partition("#")[0] + "#/rollout?run=runs%2Floud&at=0-0")
        expect_text(page, ".result", "0 red yyy")
        assert page.locator(".result .ansi-red-fg").inner_text() == "red"
        page.get_by_role("button", name="of 100,000,015 characters").click()
        expect_text(page, ".more", "204,000 of 100,000,015 characters")
        assert sum(received) < 1_000_000
