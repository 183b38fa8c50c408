"""The settings of a resources server of NeMo-Gym's that is started here."""

from pathlib import Path

from pydantic import Field

from paddock.server.fields import Block, Headers
from paddock.server.relay_server import ForwardingConfig
from paddock.types import JsonObject


class NemoGymConfig(ForwardingConfig):
    """A block with NeMo-Gym's own name of a server is read as this one: its keys are `config`."""

    server: str = Field(pattern="^[A-Za-z0-9_]+$")
    """The server's folder below `resources_servers`."""
    config: Block = Field(default={})
    """The keys of its own block. References to model servers reach those of this config."""
    folder: Path | None = None
    """Folder that holds the server's files. None: `resources_servers/<server>` in the working directory, else in
    NeMo-Gym's package."""
    interpreter: Path | None = None
    """Interpreter of an environment with NeMo-Gym's package and all that the server requires. None: the one that
    PADDOCK_NEMO_GYM_PYTHON names, where the server requires no more, else one that is made for it, below
    PADDOCK_HOME."""
    env: Headers = Field(default={}, repr=False)
    """Variables for it, beside those of this process, of which it gets none that looks like a secret."""
    start_timeout_s: float | None = Field(default=1200.0, gt=0)
    """Seconds that it may take to start, its environment included; None: as long as `serve.start_timeout_s` says."""
    serve_timeout_s: float = Field(default=180.0, gt=0)
    """Seconds that its process may take until it serves."""
    verify_timeout_s: float = Field(default=600.0, gt=0)
    """Seconds that one verdict may take; then the rollout's outcome is `verifier`."""
    judge_timeout_s: float = Field(default=300.0, gt=0)
    """Seconds that one request of its to a model server may take."""
    max_restarts: int = Field(default=5, ge=0)
    """How often one that died is started again, in all."""
    restart_wait_s: float = Field(default=1.0, ge=0)
    """Seconds before the first restart; twice as long before each further one, at most 60."""

    ray_cpus: int = Field(default=4, ge=1)
    """CPUs that Ray counts on, and so the most workers that it has at a time, where the server uses Ray."""
    ray_object_store_mib: int = Field(default=256, ge=80)
    """Memory of Ray's object store, where the server uses Ray."""

    @property
    def entrypoint(self) -> str:
        """File of the server in its folder."""
        return str(self.config.get("entrypoint") or "app.py")

    @property
    def models(self) -> list[str]:
        """Model servers that its block names, each once."""
        return list(dict.fromkeys(_referenced(self.config)))


def _referenced(node: object) -> list[str]:
    if isinstance(node, list):
        return [name for item in node for name in _referenced(item)]
    if not isinstance(node, dict):
        return []
    if is_reference(node):
        return [str(node["name"])]
    return [name for item in node.values() for name in _referenced(item)]


def is_reference(node: JsonObject) -> bool:
    """Whether a mapping of a block names a model server."""
    return set(node) == {"type", "name"} and node["type"] == "models_servers"
