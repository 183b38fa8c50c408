"""The block of a Harbor server. Seconds and MiB, as the names say."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from paddock.resources_servers.harbor.images import HarborImages
from paddock.sandbox import SandboxLimits, SandboxSettings
from paddock.server import ServerConfig


class HarborServerConfig(ServerConfig):
    """The settings of one Harbor server."""

    tasks_dir: Path | None = None
    """Folder that the rows' `task_folder` begins at; None: the working directory, then the installed package."""
    isolation: Literal["fresh", "shared"] = "fresh"
    """Where tests run: in a fresh sandbox that has only the artifacts, or in the agent's, as most tasks are published.
    A task that publishes a verifier's environment of its own gets a fresh one in either case."""
    default_artifacts: list[str] = ["."]
    """What is carried into a fresh sandbox of a task that declares no artifacts; relative paths begin at its workdir. A
    task whose result lies elsewhere can't be solved then: play `--harness gold` over new rows first."""
    artifacts_max_mib: int = Field(default=64, ge=1)
    """MiB of artifacts of one rollout, before compression; more than that is a verdict of 0 (`artifacts_too_large`)."""
    public_network: Literal["refuse", "run_without"] = "refuse"
    """What to do with a task that wants the internet, as a `task.toml` without a word of it does: no sandbox here has
    it. `run_without`: the task runs without a network, and may be unsolvable so."""
    leftover_processes: Literal["kill", "leave"] = "kill"
    """What becomes of processes that the agent left, before tests run in its own sandbox. `leave`: as published, for
    tasks that are about a running service; such a process can write the reward file after the tests."""
    reward_key: str | None = None
    """The reward among the numbers of a `reward.json` that has several and none called `reward`."""
    max_concurrent_gradings: int = Field(default=4, ge=1)
    """Rollouts whose tests may run at the same time."""
    keep_log: bool = True
    """Put the last of the tests' output into the verdict, as `log`."""
    sandbox: SandboxSettings = SandboxSettings()
    """Where fresh sandboxes run."""
    limits: SandboxLimits = SandboxLimits()
    """Budgets of a fresh sandbox; its memory is the task's own where that names some."""
    images: HarborImages = HarborImages()
    """Where images come from."""
