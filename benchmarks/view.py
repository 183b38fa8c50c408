"""`paddock view` in a browser: a list of 50 runs, one of 10,000 rollouts, a rollout of 200 turns; the server's memory.

Floor: the same browser opening the server's shortest answer. Needs Chromium (PADDOCK_CHROMIUM, else on the path), and
the package playwright; `.ci/run` names a version that drives Debian's.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from tests.viewer.web.large_run import write_run

ROLLOUTS = 10_000
TURNS = 200
TURN_CHARS = 10_000
RUNS = 50
ROUNDS = 5
WAIT_MS = 60_000


def run() -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("PADDOCK_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "runs"
        write_run(root / "run-00", rollouts=ROLLOUTS)
        write_run(root / "deep", rollouts=4, turns=TURNS, result_text="x" * TURN_CHARS)
        for nth in range(1, RUNS):
            shutil.copytree(root / "run-00", root / f"run-{nth:02}", copy_function=os.link)
        command = [sys.executable, "-m", "paddock", "view", str(root)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            browser = playwright.chromium.launch(executable_path=chromium)
            try:
                return _measure(browser, url, psutil.Process(server.pid))
            finally:
                browser.close()
                server.terminate()


def _measure(browser: Any, url: str, server: psutil.Process) -> dict[str, Any]:
    base = url.partition("#")[0]
    page = browser.new_page()
    page.set_default_timeout(WAIT_MS)
    received: list[int] = []
    page.on("response", lambda reply: received.append(int(reply.headers.get("content-length", 0))))
    cold = _seconds(lambda: _open(page, url, ".table tbody tr"))
    first_screen = sum(received)
    received.clear()
    first_run = _seconds(lambda: _open(page, f"{base}#/run?run=runs%2Frun-00", ".table tbody tr"))
    run_bytes = sum(received)
    figures: dict[str, list[float]] = {"run_s": [], "rollout_s": [], "filter_s": [], "search_s": [], "floor_s": []}
    for _ in range(ROUNDS):
        figures["floor_s"].append(_seconds(lambda: _open(page, f"{base}healthz", "body")))
        page.goto(base)
        figures["run_s"].append(_seconds(lambda: _open(page, f"{base}#/run?run=runs%2Frun-00", ".table tbody tr")))
        figures["filter_s"].append(_seconds(lambda: _filter(page)))
        figures["search_s"].append(_seconds(lambda: _search(page)))
        figures["rollout_s"].append(
            _seconds(lambda: _open(page, f"{base}#/rollout?run=runs%2Fdeep&at=0-0", f".turn >> nth={TURNS - 1}"))
        )
    page.goto(base)
    for nth in range(RUNS):
        _open(page, f"{base}#/run?run=runs%2Frun-{nth:02}", ".table tbody tr")
    return {
        "first_screen_s": cold,
        "first_screen_kb": first_screen / 1000,
        "run_first_time_s": first_run,
        "run_kb": run_bytes / 1000,
        **{name: median(values) for name, values in figures.items()},
        "server_mib_after_50_runs": server.memory_info().rss / 2**20,
    }


def _seconds(do: Callable[[], None]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def _open(page: Any, address: str, selector: str) -> None:
    page.goto(address)
    page.wait_for_selector(selector, state="attached")


def _filter(page: Any) -> None:
    page.get_by_label("filter rollouts").fill("made-99")
    page.get_by_text(" of 10,000 rollouts").wait_for()
    page.wait_for_function("() => document.querySelectorAll('.table tbody tr').length < 600")


def _search(page: Any) -> None:
    page.get_by_label("filter rollouts").fill("")
    field = page.get_by_label("search in texts and patches")
    field.fill("made__made-1234")
    field.press("Enter")
    page.wait_for_function("() => document.body.innerText.includes('4 of 10,000 rollouts')")
