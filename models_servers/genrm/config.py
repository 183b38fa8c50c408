"""Config of a genrm model server: where the judge is, how requests are put to it, and for how long.

Law     `base_url` (endpoints that run) or `launch` (vLLM servers of its own), never both.
Units   seconds.
Errors  a field that can't be used is refused when the config is read.
"""

from typing import Literal

from pydantic import Field, SecretStr, model_validator

from paddock.server import ServerConfig
from paddock.server.fields import Block, Headers, Urls, bare_urls, secret_text
from paddock.server.vllm.launch_settings import LaunchSettings
from paddock.server.vllm.launcher import ServedModel


class GenrmModelConfig(ServerConfig):
    """One judge."""

    model: str
    """Its name at the endpoint; clients' own names for it are not passed on."""
    base_url: Urls | None = None
    """Base URL of an endpoint that speaks Chat Completions, with `/v1`; several take turns, and one that has just
    failed is passed over. None: see `launch`."""
    launch: LaunchSettings | None = None
    """vLLM servers of its own, started and ended with this one. None: see `base_url`."""
    reasoning_parser: str | None = None
    """Of `launch`: vLLM's name of the parser of reasoning (`deepseek_r1`, `qwen3`, ...); None: what stands before
    `</think>` is reasoning."""
    api_key: SecretStr | None = Field(default=None, repr=False)
    """None or empty: the endpoint needs none."""
    prompt_form: Literal["roles", "plain"] = "roles"
    """How a comparison is put: `roles`: as messages of the roles `principle`, `response_1`, `response_2`, for judges
    whose chat template knows them; `plain`: as one system and one user message, for any chat model."""
    supports_principle_role: bool = True
    """Of `roles`; false: the principle is stated in a system message."""
    extra_body: Block = Field(default={})
    """Further request keys, over the client's."""
    chat_template_kwargs: Block = Field(default={})
    """Arguments of the chat template, over the client's."""
    default_headers: Headers = Field(default={}, repr=False)
    """Headers of every request to the endpoint."""
    timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds for one exchange with the endpoint, first byte to last."""
    retry_for_s: float = Field(default=300.0, ge=0)
    """Seconds from a request's first failure on in which it is tried again; a caller's own deadline goes before."""
    first_retry_s: float = Field(default=0.5, gt=0)
    """Seconds before the second try, at most; twice as long before each further one."""
    max_retry_s: float = Field(default=30.0, gt=0)
    """Longest wait between tries; also of one that the endpoint asks for."""
    max_concurrency: int = Field(default=256, ge=1)
    """Exchanges with the endpoint at once; further requests wait."""
    cache_entries: int = Field(default=2000, ge=0)
    """Answers that are kept for equal requests, the least recently used given up first. Requests are equal where all
    that reaches the judge and all other `metadata` (`judge_idx`, `try`, ...) is. 0: each request is asked for itself,
    equal ones at the same time too."""
    start_timeout_s: float | None = Field(default=900.0, gt=0)
    """Seconds that it may take to start, servers of its own included."""
    stop_timeout_s: float | None = Field(default=30.0, gt=0)
    """Seconds that it may take to stop, servers of its own included; twice what they need (`launch.stop_timeout_s`)."""

    @model_validator(mode="after")
    def _single_origin(self) -> "GenrmModelConfig":
        if (self.base_url is None) == (self.launch is None):
            raise ValueError("needs either `base_url` of an endpoint or `launch` for servers of its own")
        if self.reasoning_parser is not None and self.launch is None:
            raise ValueError("reasoning_parser: only servers of its own (`launch`) take it")
        return self

    @property
    def urls(self) -> list[str]:
        """Base URLs without a slash at the end; none where servers are launched."""
        return bare_urls(self.base_url)

    @property
    def key(self) -> str | None:
        return secret_text(self.api_key)

    @property
    def served(self) -> ServedModel:
        """What launched servers serve."""
        parser = ["--reasoning-parser", self.reasoning_parser] if self.reasoning_parser else []
        return ServedModel(self.model, self.key, parser)
