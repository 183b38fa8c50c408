"""The settings of an agent over an environment of verifiers."""

from typing import Self

from pydantic import Field, model_validator

from paddock.sandbox.tunnel import TunnelSettings
from paddock.server import AgentConfig
from paddock.server.fields import Block


class VerifiersAgentConfig(AgentConfig):
    """`python` names an interpreter that has verifiers, the environment and this package."""

    environment: str = Field(min_length=1)
    """Id of the taskset, as verifiers has it: a module, an installed package, or one of its own."""
    env: Block = Field(default={})
    """verifiers' own `[env]` block: `id`, `taskset`, `timeout`, and each seat's `harness`, `runtime`, `sampling` and
    limits. A seat whose harness is not named, there or by the environment, has `null` (a chat with the task's tools);
    one whose runtime is not named has `subprocess`."""
    path: list[str] = []
    """Folders with the environment's modules, looked for like a config path; none for an installed package."""
    seat: str | None = None
    """The seat that the model plays: its reward is the rollout's, its turns are recorded. Other seats ask the same
    model without a record, or an endpoint of their own. None: the only seat there is."""
    host_commands: bool = False
    """Whether a harness that gives the model a shell may run without a container: its commands then run on this machine
    as this user."""
    verify_timeout_s: float = Field(default=600.0, gt=0)
    """Seconds that the environment may take to score an episode that is over; then the outcome is `verifier`. It may
    have a limit of its own, in `env`."""
    start_timeout_s: float | None = Field(default=300.0, gt=0)
    """Seconds that it may take to start: the environment is imported, and its harness's program prepared."""
    stop_timeout_s: float | None = Field(default=20.0, gt=0)
    """Seconds that it may take to stop: episodes that run are told to end their containers."""
    tunnel: TunnelSettings = TunnelSettings()
    """Bounds of the way from the environment to the model; `port` is any free one."""

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if (self.env.get("taskset") or {}).get("id", self.environment) != self.environment:
            raise ValueError("env.taskset.id: the environment is named by `environment`")
        return self
