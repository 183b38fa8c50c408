"""What a run needs before its nodes have no network or many hands: environments, programs of harnesses, images.

Law     each step is a command of its own, which a person could give; each can be given again, and then does what is
        left to do. A step that fails holds up no other.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.training.launch.settings import LaunchSettings
from paddock.training.launch.shell import Step

SETUP = Path("scripts") / "setup_vllm.sh"


class Needs(NamedTuple):
    """What a config asks for."""

    programs: Sequence[str] = ()
    """Harnesses that run a program."""
    rows: Sequence[str] = ()
    """Files of rows that name images."""
    formatters: Sequence[str] = ()
    """Where images may be, as the config says."""
    engine_on_cpu: bool = False


class Work(NamedTuple):
    why: str
    step: Step


def works(settings: LaunchSettings, needs: Needs, package: Path) -> Iterator[Work]:
    """In the order in which they are done."""
    if settings.trainer == "paddock" and not settings.python and needs.engine_on_cpu and (package / SETUP).is_file():
        folder = Path(settings.persistent_cache or "~/.cache/paddock").expanduser().absolute() / "vllm"
        yield Work("an environment with vLLM for a CPU", Step([str(package / SETUP), str(folder)]))
    paddock = [sys.executable, "-m", "paddock"]
    for name in needs.programs:
        yield Work(f"the program of harness {name}", Step([*paddock, "harness", "install", name]))
    for rows in needs.rows:
        places = [word for place in needs.formatters for word in ("--formatter", place)]
        yield Work(f"images of {rows}", Step([*paddock, "images", "pull", "--rows", rows, *places]))
