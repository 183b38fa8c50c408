"""Processes below a command, by the part that they play: what is many does not hide what is one of its kind."""

import random
from contextlib import suppress
from typing import Literal

import psutil

Part = Literal["command", "server", "zygote", "keeper", "runtime", "shell", "test", "other"]
_ZYGOTE = "zygote.serve"
_RUNTIMES = ("apptainer", "starter", "bwrap")
_SHELLS = ("sh", "bash", "dash")


def victim(command: psutil.Process, chance: random.Random) -> tuple[Part, psutil.Process]:
    """A part that is played now, and one of those that play it. psutil.Error where the command has ended."""
    parts: dict[Part, list[psutil.Process]] = {"command": [command]}
    for process in command.children(recursive=True):
        with suppress(psutil.Error):
            parts.setdefault(_part(process), []).append(process)
    part = chance.choice(sorted(parts))
    return part, chance.choice(parts[part])


def _part(process: psutil.Process) -> Part:
    words, name = " ".join(process.cmdline()), process.name()
    if _ZYGOTE in words:
        parent = process.parent()
        return "keeper" if parent and _ZYGOTE in " ".join(parent.cmdline()) else "zygote"
    if "paddock.server.child" in words:
        return "server"
    if "pytest" in words:
        return "test"
    if name in _SHELLS:
        return "shell"
    return "runtime" if any(one in f"{name} {words}".lower() for one in _RUNTIMES) else "other"
