"""A model call and a row pass no more code than a reader can follow: `benchmarks/walks.py` has the bounds."""

import json
import subprocess
import sys

from benchmarks.walks import MOST

COUNT = "import json, sys; from benchmarks.walks import run; json.dump(run(), sys.stdout)"


def test_a_call_and_a_row_pass_few_files_and_functions() -> None:
    """In a process of its own: the interpreter's profile hook is one per thread, and all threads of it count."""
    counted = json.loads(subprocess.check_output([sys.executable, "-c", COUNT], text=True))
    over = {
        f"{walk}: {figure}": (counted[walk][figure], most, counted[walk]["names"])
        for walk, figures in MOST.items()
        for figure, most in figures.items()
        if counted[walk][figure] > most
    }
    assert not over
