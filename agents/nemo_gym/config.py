"""The settings of an agent of NeMo-Gym's that is started here."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from paddock.sandbox.tunnel import TunnelSettings
from paddock.server import AgentConfig
from paddock.server.nemo_gym.settings import GymProcessConfig


class NemoGymAgentConfig(GymProcessConfig, AgentConfig):
    """A block with NeMo-Gym's own name of an agent that nothing here replaces is read as this one: its keys are
    `config`, but for the references to its resources server and its model server, and for its datasets."""

    agent: str = Field(pattern="^[A-Za-z0-9_]+$")
    """The agent's folder below `responses_api_agents`."""
    model_timeout_s: float = Field(default=300.0, gt=0)
    """Seconds that one request of its to another model server than the policy's may take."""
    max_reply_mib: int = Field(default=64, ge=1)
    """MiB of its answer of one rollout; a longer one is read no further, and its rollout gets no reward."""
    tunnel: TunnelSettings = TunnelSettings()
    """Bounds of the way from the agent to the policy's model; `port` is any free one."""

    @property
    def own_folder(self) -> Path:
        return Path("responses_api_agents") / self.agent

    @model_validator(mode="after")
    def _is_verified(self) -> Self:
        if self.config.get("skip_verification"):
            raise ValueError("config.skip_verification: every rollout is verified here; leave it out")
        return self
