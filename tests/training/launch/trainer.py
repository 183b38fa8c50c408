"""In the place of an interpreter: what `python -m paddock train ... --out FOLDER --resume` does, as a launch sees it.

Writes `begun.jsonl` in the folder, one line a start: its words, its environment, whether it goes on. A first start
lasts until it is told to end; then it stores `checkpoint` and exits with 130. One that finds that ends at once with 0.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

LONGEST_S = 600


def main(words: list[str]) -> int:
    out = Path(words[words.index("--out") + 1])
    checkpoint = out / "checkpoint"
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    line = {"words": words, "environ": dict(os.environ), "from": checkpoint.exists(), "folder": str(Path.cwd())}
    with (out / "begun.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    if checkpoint.exists():
        sys.stderr.write("at its end\n")
        return 0
    deadline = time.monotonic() + LONGEST_S
    while not told and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    checkpoint.write_text("")
    sys.stderr.write("interrupted\n")
    return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
