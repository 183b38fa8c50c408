"""Config of an openai server."""

from typing import Literal

from pydantic import Field, SecretStr, model_validator

from paddock.server.fields import Block, Headers, Urls, bare_urls, secret_text
from paddock.server.recording_server import RecordingConfig
from paddock.types.request_fields import NEUTRAL

OFF_POLICY = (
    *(name for name in NEUTRAL if name not in ("temperature", "top_p")),
    *("logit_bias", "min_tokens", "bad_words", "allowed_token_ids"),
)
"""Keys by which an engine samples from something else than its model at a temperature and a top_p."""
REFUSED = (
    *OFF_POLICY,
    *("required_prefix_token_ids", "add_generation_prompt", "continue_final_message", "truncate_prompt_tokens"),
)
"""Keys that NeMo-RL's chat server is never sent: those, and what would change how it splices a prompt."""


class OpenAIConfig(RecordingConfig):
    """The endpoint, what is sent to it besides the client's request, and how long it is waited for."""

    base_url: Urls
    """Base URL of the endpoint, with `/v1`; of several, each rollout keeps to one."""
    api_key: SecretStr | None = None
    """None or empty: the endpoint needs none."""
    model: str
    """The model's name at the endpoint; clients' own names for it are not passed on."""
    accepted_models: tuple[str, ...] = ()
    """Names that an answer's `model` may have: one of another model, or of none, is a failure. Empty: any, since many
    endpoints answer with a dated, served or longer name than was asked for."""
    upstream_api: Literal["responses", "chat"] = "chat"
    """The dialect that the endpoint speaks; clients may use either."""
    engine: Literal["text", "spliced"] = "text"
    """`spliced`: the endpoint keeps each rollout's tokens as they were sampled, and an answer without token ids and
    log-probs is a failure; `text`: ids are recorded if they come."""
    request_token_ids: bool = False
    """Asks a chat endpoint for token ids and log-probs, in the way of `token_protocol`."""
    token_protocol: Literal["vllm", "nemo_rl"] = "vllm"
    """`vllm`: by `return_token_ids`. `nemo_rl`: as NeMo-RL's chat server has it, which is sent the ids of the turn that
    a request continues, takes them in place of what its template makes of them, and is asked whole answers only."""
    sampling_overrides: Block = Field(default={})
    """Request keys that are always as said here, whatever the client asks; null: the key is left out."""
    extra_body: Block = Field(default={})
    """Further request keys, over the client's."""
    chat_template_kwargs: Block = Field(default={})
    """Arguments of the chat template, over the client's."""
    default_headers: Headers = Field(default={}, repr=False)
    """Headers of every request to the endpoint."""
    reasoning_fields: tuple[Literal["reasoning", "reasoning_content"], ...] = ("reasoning", "reasoning_content")
    """Fields of a chat message in which the reasoning of earlier turns is sent; empty: it is not sent."""
    timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds for one exchange with the endpoint, first byte to last."""
    attempts: int = Field(default=4, ge=1)
    """How often one call is tried in all."""
    first_retry_s: float = Field(default=0.5, ge=0)
    """Seconds before the second try, at most; twice as long before each further one."""
    max_retry_s: float = Field(default=30.0, ge=0)
    """Longest wait between tries; also of one that the endpoint asks for."""
    max_concurrency: int = Field(default=1024, ge=1)
    """Exchanges with the endpoint at once; further calls wait."""

    @model_validator(mode="after")
    def _ids_come_from_chat(self) -> "OpenAIConfig":
        if self.upstream_api == "responses" and (self.request_token_ids or self.engine == "spliced"):
            raise ValueError("token ids come from chat endpoints only: set `upstream_api: chat`, or `engine: text`")
        return self

    @model_validator(mode="after")
    def _nemo_rl_gives_ids(self) -> "OpenAIConfig":
        if self.token_protocol != "nemo_rl":
            return self
        if self.engine != "spliced" or not self.request_token_ids:
            raise ValueError("`token_protocol: nemo_rl` needs `engine: spliced` and `request_token_ids: true`")
        given = {**self.extra_body, **self.sampling_overrides}
        refused = [key for key in REFUSED if given.get(key) is not None]
        if refused:
            raise ValueError(
                f"{refused[0]}: NeMo-RL's chat server samples by temperature and top_p alone, and splices by itself"
            )
        return self

    @property
    def urls(self) -> list[str]:
        """Base URLs without a slash at the end."""
        return bare_urls(self.base_url)

    @property
    def key(self) -> str | None:
        return secret_text(self.api_key)
