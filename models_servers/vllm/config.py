"""Config of a vllm server: which vLLM, started or only fronted, and how it is asked.

Law     one of `base_url` (running servers), `launch` (servers of our own) and `engines_of` (those of another server).
Units   seconds, GiB, tokens.
Errors  a field that can't be used is refused when the config is read; a missing folder when it is asked for
        (`tokenizer_folder`, `template`: ConfigError).
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from paddock.models_servers.vllm.sampling import unknown_names
from paddock.server.exact.language import LanguageConfig
from paddock.server.fields import Urls, bare_urls, secret_text
from paddock.server.vllm.launch_settings import LaunchSettings
from paddock.server.vllm.launcher import ServedModel
from paddock.types import JsonObject


class EnginesSource(BaseModel):
    """A model server `vllm` on this machine whose vLLM servers another one asks too."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: str
    """Its root."""
    token: SecretStr | None = Field(default=None, repr=False)
    """What it asks for; None: nothing."""


class VllmConfig(LanguageConfig):
    """One model behind one or more vLLM servers."""

    model: str
    """Folder or name of the model, as vLLM is given it; at running servers also the name under which they serve it."""
    base_url: Urls | None = None
    """Base URL of a running server, with or without `/v1`; of several, a rollout keeps to one. None: see `launch`."""
    launch: LaunchSettings | None = None
    """Servers of our own, started and ended with this one. None: see `base_url`."""
    engines_of: EnginesSource | None = None
    """Another server `vllm` on this machine, whose vLLM servers this one asks too, wherever they are started again; a
    training run says it for its rollout workers. None: see `base_url`."""
    api_key: SecretStr | None = Field(default=None, repr=False)
    """None or empty: the servers ask for none. Never told on any route: a trainer that needs it has it from the same
    config; vLLM's routes for weights do not ask for it."""
    log_probs: Literal["sampled", "any"] = "sampled"
    """`sampled`: a call is refused where the server would give log-probs of another distribution than the one it
    samples from (vLLM's default mode, with a temperature other than 1 or any cut-off); `any`: it is not. For training
    only `sampled` is right."""
    timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds for one answer, first token to last."""
    attempts: int = Field(default=4, ge=1)
    """How often one call is tried in all; only while nothing was sampled."""
    first_retry_s: float = Field(default=0.5, ge=0)
    """Seconds before the second try, at most; twice as long before each further one."""
    max_retry_s: float = Field(default=30.0, ge=0)
    """Longest wait between tries; also of one that the server asks for."""
    max_concurrency: int = Field(default=1024, ge=1)
    """Answers that are sampled at once, over all servers; further calls wait."""
    health_interval_s: float = Field(default=5.0, gt=0)
    """Seconds between two health checks of a server, or of a dead one between two tries to have it back."""
    health_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds in which a server has to answer a health check; for the generation that checks a new one: six times
    as long, because a first request loads much."""
    health_failures: int = Field(default=3, ge=1)
    """Health checks in a row without an answer after which a server counts as dead; a refused connection counts at
    once."""
    replica_wait_s: float = Field(default=120.0, ge=0)
    """Seconds that a call waits for a server while none is well."""
    drain_s: float = Field(default=600.0, ge=0)
    """Seconds that a server which is being replaced may go on with the answers it has begun."""
    start_timeout_s: float | None = Field(default=900.0, gt=0)
    """Seconds that it may take to start, its vLLM servers included."""
    stop_timeout_s: float | None = Field(default=30.0, gt=0)
    """Seconds that it may take to stop, its vLLM servers included; twice what they need (`launch.stop_timeout_s`)."""

    @field_validator("base_url")
    @classmethod
    def _no_repeats(cls, value: str | list[str] | None) -> str | list[str] | None:
        if isinstance(value, list) and len(set(value)) < len(value):
            raise ValueError("names a server twice")
        return value

    @field_validator("sampling_overrides")
    @classmethod
    def _known_to_vllm(cls, value: JsonObject) -> JsonObject:
        if unknown := unknown_names(value):
            raise ValueError(f"not passed on to vLLM: {', '.join(unknown)}")
        return value

    @model_validator(mode="after")
    def _single_origin(self) -> "VllmConfig":
        if sum(origin is not None for origin in (self.base_url, self.launch, self.engines_of)) != 1:
            raise ValueError(
                "needs either `base_url` of running servers or `launch` for servers of its own (or `engines_of`, for "
                "those of another server)"
            )
        return self

    @property
    def urls(self) -> list[str]:
        """Roots of the running servers, without `/v1`; none where they are launched."""
        return [url.removesuffix("/v1") for url in bare_urls(self.base_url)]

    @property
    def key(self) -> str | None:
        return secret_text(self.api_key)

    @property
    def served(self) -> ServedModel:
        """What launched servers serve: prompts of ids, and log-probs of the distribution that is sampled from."""
        options = ["--enable-scale-out", "--enable-prompt-tokens-details", "--logprobs-mode", "processed_logprobs"]
        if self.routed_experts:
            options.append("--enable-return-routed-experts")
        if self.tokenizer is not None:
            options += ["--tokenizer", str(self.tokenizer)]
        return ServedModel(self.model, self.key, options)
