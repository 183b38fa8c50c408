"""The settings of a resources server of NeMo-Gym's that is started here."""

from pathlib import Path

from pydantic import Field

from paddock.server import Reference
from paddock.server.nemo_gym.settings import GymProcessConfig
from paddock.server.relay_server import ForwardingConfig


class NemoGymConfig(GymProcessConfig, ForwardingConfig):
    """A block with NeMo-Gym's own name of a server is read as this one: its keys are `config`."""

    server: str = Field(pattern="^[A-Za-z0-9_]+$")
    """The server's folder below `resources_servers`."""
    model_urls: dict[str, Reference] = {}
    """Model servers of this config by the keys of its block that want a URL of a model (`judge_base_url`)."""
    verify_timeout_s: float = Field(default=600.0, gt=0)
    """Seconds that one verdict may take; then the rollout's outcome is `verifier`."""
    judge_timeout_s: float = Field(default=300.0, gt=0)
    """Seconds that one request of its to a model server may take."""

    @property
    def models(self) -> list[str]:
        """Model servers that its block names, each once."""
        return list(dict.fromkeys([*super().models, *(reference.name for reference in self.model_urls.values())]))

    @property
    def own_folder(self) -> Path:
        return Path("resources_servers") / self.server
