"""The picture of `paddock view` that the README has: a rollout of the demo, from a run of it.

    paddock eval configs/swe_demo.yaml --oracle --out runs/demo
    python scripts/view_picture.py runs/demo --at 3-0 --turn 2 docs/view.png

Needs Chromium (PADDOCK_CHROMIUM, else on the path) and the package playwright, as `.ci/run browser` installs it.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

WIDTH, HEIGHT = 1400, 800
MOST_BYTES = 150_000
SETTLE_MS = 500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("out", type=Path, help="file of the picture")
    parser.add_argument("--at", default="0-0", metavar="GROUP-MEMBER", help="the rollout (default: 0-0)")
    parser.add_argument("--turn", type=int, default=1, metavar="N", help="the turn on top (default: 1)")
    args = parser.parse_args()
    state = urlencode({"run": f"{args.run.resolve().parent.name}/{args.run.name}", "at": args.at, "turn": args.turn})
    command = [sys.executable, "-m", "paddock", "view", str(args.run.resolve().parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            take(server.stdout.readline().strip(), state, args.out)
        finally:
            server.terminate()
    size = args.out.stat().st_size
    print(f"{args.out}: {size} bytes")
    return 0 if size <= MOST_BYTES else 1


def take(url: str, state: str, out: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("PADDOCK_CHROMIUM") or shutil.which("chromium")
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(url)
        page.goto(f"{url.partition('#')[0]}#/rollout?{state}")
        page.get_by_role("heading", name="Turns").wait_for()
        page.wait_for_timeout(SETTLE_MS)
        page.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
