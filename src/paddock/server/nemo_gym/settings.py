"""What the blocks of a server and of an agent of NeMo-Gym's have in common: what it is started from, and how."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, Field

from paddock.server.fields import Block, Headers
from paddock.types import JsonObject

THEIR_KINDS: Mapping[str, str] = {"models_servers": "responses_api_models", "agents": "responses_api_agents"}
"""NeMo-Gym's names of kinds of servers, where they are others than ours."""


class GymProcessConfig(BaseModel):
    """Fields of every block whose server is a process of NeMo-Gym's."""

    config: Block = Field(default={})
    """The keys of its own block. References to model servers reach those of this config."""
    folder: Path | None = None
    """Folder that holds its files. None: the one of its name below `resources_servers` or `responses_api_agents`, in
    the working directory, else in NeMo-Gym's package."""
    interpreter: Path | None = None
    """Interpreter of an environment with NeMo-Gym's package and all that it requires. None: the one that
    PADDOCK_NEMO_GYM_PYTHON names, where it requires no more, else one that is made for it, below PADDOCK_HOME."""
    env: Headers = Field(default={}, repr=False)
    """Variables for it, beside those of this process, of which it gets none that looks like a secret."""
    start_timeout_s: float | None = Field(default=1200.0, gt=0)
    """Seconds that it may take to start, its environment included; None: as long as `serve.start_timeout_s` says."""
    serve_timeout_s: float = Field(default=180.0, gt=0)
    """Seconds that its process may take until it serves."""
    max_restarts: int = Field(default=5, ge=0)
    """How often one that died is started again, in all."""
    restart_wait_s: float = Field(default=1.0, ge=0)
    """Seconds before the first restart; twice as long before each further one, at most 60."""
    ray_cpus: int = Field(default=4, ge=1)
    """CPUs that Ray counts on, and so the most workers that it has at a time, where its files use Ray."""
    ray_object_store_mib: int = Field(default=256, ge=80)
    """Memory of Ray's object store, where its files use Ray."""

    @property
    def entrypoint(self) -> str:
        """Its file in its folder."""
        return str(self.config.get("entrypoint") or "app.py")

    @property
    def models(self) -> list[str]:
        """Model servers that its own keys name, each once."""
        return list(dict.fromkeys(_referenced(self.config)))

    def ray_options(self) -> JsonObject:
        return {"num_cpus": self.ray_cpus, "object_store_memory": self.ray_object_store_mib << 20}


class GymFiles(Protocol):
    """Where the files of a server or an agent are looked for, and what runs them."""

    @property
    def folder(self) -> Path | None: ...

    @property
    def interpreter(self) -> Path | None: ...

    @property
    def entrypoint(self) -> str: ...

    @property
    def own_folder(self) -> Path:
        """In the working directory, or in the package."""
        ...


def in_their_words(node: JsonObject) -> JsonObject:
    """A block of theirs as it was written, before the references in it had our kinds."""
    return {key: _theirs(value) for key, value in node.items()}


def _theirs(node: object) -> object:
    if isinstance(node, list):
        return [_theirs(item) for item in node]
    if not isinstance(node, dict):
        return node
    if _is_reference(node):
        return {**node, "type": THEIR_KINDS.get(node["type"], node["type"])}
    return in_their_words(node)


def _referenced(node: object) -> list[str]:
    if isinstance(node, list):
        return [name for item in node for name in _referenced(item)]
    if not isinstance(node, dict):
        return []
    if _is_reference(node) and node["type"] == "models_servers":
        return [str(node["name"])]
    return [name for item in node.values() for name in _referenced(item)]


def _is_reference(node: JsonObject) -> bool:
    return set(node) == {"type", "name"} and node["type"] in ("models_servers", "agents", "resources_servers")
