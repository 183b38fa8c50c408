"""The `launch` block: vLLM servers of our own.

Units   seconds, GiB, tokens.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from paddock.types import JsonObject

OLDEST = "0.32"
"""Version of vLLM from which on its options, routes and parsers are those that are used here."""
SECRETS = ("api-key", "hf-token", "ssl-keyfile-password")
"""Options of vLLM whose values any user of the machine could read in its list of processes."""
SHORTEST = 5
"""Letters of an option below which vLLM takes none of these from it."""
Device = Literal["cpu", "gpu"]
GROUP_VARIABLE = "PADDOCK_VLLM_PLACEMENT_GROUP"
"""Id of Ray's placement group with a bundle for each rank of a vLLM, in their order."""


def _strings(value: object) -> object:
    """YAML reads `1` and `true` as no strings, and arguments and variables are."""
    if isinstance(value, list):
        return [str(entry) for entry in value]
    if isinstance(value, dict):
        return {key: str(entry) for key, entry in value.items()}
    return value


class RayRanks(BaseModel):
    """Where a vLLM that is spread over nodes has its ranks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    """HOST:PORT of the head of the Ray cluster."""
    placement_group: str
    """Id of the placement group there, with a bundle for each rank, in their order."""


class LaunchSettings(BaseModel):
    """How many, on what, and with which limits."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    python: Path | None = None
    """Interpreter of the environment that has vLLM; None: the one that runs this server."""
    replicas: int = Field(default=1, ge=1)
    """Servers, each with the whole model."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """`auto`: what that environment's vLLM says of itself."""
    gpus_per_replica: int = Field(default=1, ge=1)
    """Each replica gets its own, over which the model is split: each layer, unless `pipeline_parallel_size` says more.
    On a CPU without meaning."""
    pipeline_parallel_size: int = Field(default=1, ge=1)
    """Stages of a replica, each with some of the layers and its share of the GPUs; on a CPU each is a process."""
    ray: RayRanks | None = None
    """Where the ranks of the only replica run; a training run says it for replicas that it spreads over nodes. None:
    on this machine."""
    dtype: str | None = None
    """Type of the weights, as vLLM names it (`bfloat16`, `float32`); None: the model's own."""
    max_model_len: int | None = Field(default=None, ge=1)
    """Longest sequence, prompt and answer together; None: the model's own."""
    max_num_seqs: int | None = Field(default=None, ge=1)
    """Answers sampled at once by a replica; None: vLLM's default."""
    kv_cache_gib: int | None = Field(default=None, ge=1)
    """Size of the KV cache; None: on a CPU 4, on a GPU what is free."""
    cpu_threads: int = Field(default=1, ge=1)
    """Threads of one replica on a CPU."""
    enforce_eager: bool = False
    """True: no compilation and no CUDA graphs; starts sooner, samples slower."""
    weight_transfer: str | None = None
    """The backend by which a trainer sends weights, `gloo` (on one machine or GPU by memory that both share, else over
    gloo) or `paddock_nccl` (plugins of vLLM), or another one of vLLM's; opens vLLM's routes for that. None: closed."""
    extra_args: Annotated[list[str], BeforeValidator(_strings)] = []
    """Further arguments of vLLM's API server; after ours, so they win. No secrets: those go in `env`."""
    serve_kwargs: JsonObject = {}
    """The same by name (`max_num_batched_tokens: 8192`); true: the option alone, false: its `--no-` form, null: left
    out; an object: as JSON."""
    env: Annotated[dict[str, str], BeforeValidator(_strings)] = Field(default={}, repr=False)
    """Further environment variables; over ours."""
    folder: Path | None = None
    """Where each replica's log is written, by one server at a time; None: a folder per server in the system's
    temporary folder."""
    start_timeout_s: float = Field(default=600.0, gt=0)
    """Time for a replica to become well; loading a large model takes minutes."""
    stop_timeout_s: float = Field(default=10.0, ge=0)
    """Time for a replica to end once it is asked to; what is left then is killed."""
    stall_timeout_s: float | None = Field(default=600.0, gt=0)
    """Seconds without a token after which a replica that says that it is healthy, and is not paused by a trainer, is
    ended and started again: its engine hangs. None: it is not watched for that."""
    max_restarts: int = Field(default=20, ge=0)
    """How often one replica that died is started again, in all; then it is given up."""
    restart_wait_s: float = Field(default=1.0, ge=0)
    """Wait before the first restart; twice as long before each further one, at most 60 s."""

    @property
    def serve_args(self) -> list[str]:
        """`serve_kwargs` as arguments."""
        return [argument for name, value in self.serve_kwargs.items() for argument in _arguments(name, value)]

    @model_validator(mode="after")
    def _whole_stages(self) -> Self:
        if self.device != "cpu" and self.gpus_per_replica % self.pipeline_parallel_size:
            raise ValueError(
                f"gpus_per_replica ({self.gpus_per_replica}) is no multiple of pipeline_parallel_size "
                f"({self.pipeline_parallel_size}), whose stages have the same number of GPUs each (`device: cpu`: none)"
            )
        return self

    @field_validator("serve_kwargs")
    @classmethod
    def _no_secret_names(cls, value: JsonObject) -> JsonObject:
        cls._no_secrets([_option(name) for name in value])
        return value

    @field_validator("extra_args")
    @classmethod
    def _no_secrets(cls, value: list[str]) -> list[str]:
        for argument in value:
            option = argument.partition("=")[0].removeprefix("--").replace("_", "-")
            if argument.startswith("--") and len(option) >= SHORTEST and any(key.startswith(option) for key in SECRETS):
                raise PydanticCustomError(
                    "secret",
                    f"--{option}: no secret goes on a command line; the server's key is `api_key`, others are "
                    "variables of `launch.env`, such as HF_TOKEN",
                )
        return value


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _arguments(name: str, value: Any) -> list[str]:
    match value:
        case None:
            return []
        case bool():
            return [_option(name if value else f"no-{name}")]
        case list():
            return [_option(name), *map(str, value)]
        case dict():
            return [_option(name), json.dumps(value)]
    return [_option(name), str(value)]
