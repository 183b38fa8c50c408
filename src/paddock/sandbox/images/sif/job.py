"""Run as a program of its own: one `apptainer build` through spython, which can't be interrupted or timed from inside.

Usage   python job.py SPEC TARGET [OPTION...]; exit 0 when TARGET is there. Whoever starts it ends it, by its group.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path


def main(spec: str, target: str, *options: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        # spython knows the program by its older name only.
        if shutil.which("singularity") is None and (program := shutil.which("apptainer")) is not None:
            Path(folder, "singularity").symlink_to(program)
            os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
        from spython.main import get_client

        client = get_client(quiet=True)
        client.build(recipe=spec, image=target, sudo=False, force=True, options=list(options), quiet=True)
    return 0 if Path(target).exists() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
