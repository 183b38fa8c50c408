"""Claims about the folder of a run's Ray: its own, and nobody's after it."""

import os
import subprocess
import sys
from pathlib import Path

from paddock.training.grpo.ray_folder import ray_folder

NOBODYS = 2**22 - 1
"""No process has a number as large."""
STARTED = (
    "import sys; from pathlib import Path\n"
    "from paddock.training.grpo.ray_folder import ray_folder\n"
    "with ray_folder(Path(sys.argv[1])): pass"
)


def test_what_killed_processes_left_is_removed_whatever_number_they_had(tmp_path: Path) -> None:
    for name in (str(os.getpid()), f"{os.getpid()}-abc", f"{NOBODYS}-abc", "notes"):
        (tmp_path / f"paddock-ray-{name}").mkdir()
    with ray_folder(tmp_path) as folder:
        assert {path.name for path in tmp_path.iterdir()} == {folder.name, "paddock-ray-notes"}
        assert folder.stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir()] == ["paddock-ray-notes"]


def test_one_that_is_in_use_is_left_though_its_process_is_not_seen(tmp_path: Path) -> None:
    with ray_folder(tmp_path) as folder:
        held = folder.rename(tmp_path / f"paddock-ray-{NOBODYS}-abc")
        subprocess.run([sys.executable, "-c", STARTED, str(tmp_path)], check=True, timeout=300)
        assert [path.name for path in tmp_path.iterdir()] == [held.name]
