"""Config of a sglang server: which SGLang, and how it is asked.

Units   seconds, tokens.
Errors  a field that can't be used is refused when the config is read; a missing folder when it is asked for
        (`tokenizer_folder`, `template`: ConfigError), and a model's config without experts (`experts_per_token`).
"""

import json
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from paddock.errors import ConfigError
from paddock.models_servers.sglang.sampling import unknown_names
from paddock.server.exact.language import LanguageConfig
from paddock.server.fields import Urls, bare_urls, secret_text
from paddock.types import JsonObject


class SglangConfig(LanguageConfig):
    """One model behind one or more SGLang servers, or behind their router."""

    model: str
    """Folder of the model, and the name under which it is served; `tokenizer` names the folder where that is none."""
    base_url: Urls
    """Base URL of a running server or router, with or without `/v1`; of several, a rollout keeps to one. All have to
    run at the start. A router is told the rollout by the header `X-SMG-Routing-Key`."""
    api_key: SecretStr | None = Field(default=None, repr=False)
    """None or empty: the servers ask for none."""
    max_model_len: int | None = Field(default=None, ge=2)
    """Longest sequence in tokens, prompt and answer together; None: as the servers say, and one that does not say is
    refused: without a bound SGLang ends each answer after 128 tokens."""
    log_probs: Literal["sampled", "any"] = "sampled"
    """`sampled`: a call is refused where SGLang gives log-probs of another distribution than the one it samples from:
    with `top_p`, `top_k` or `min_p`, and of a server that leaves the temperature out of them
    (`SGLANG_RETURN_ORIGINAL_LOGPROB`) at a temperature other than 1; `any`: it is not. For training only `sampled` is
    right."""
    timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds for one answer, first token to last, continuations and further tries included."""
    start_check_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds in which a server has to answer each of the requests that check it at the start."""
    attempts: int = Field(default=4, ge=1)
    """How often one call is tried in all; only while nothing was sampled."""
    first_retry_s: float = Field(default=0.5, ge=0)
    """Seconds before the second try, at most; twice as long before each further one. Also before an answer goes on
    that SGLang ended so that weights could change."""
    max_retry_s: float = Field(default=30.0, ge=0)
    """Longest wait between tries; also of one that the server asks for."""
    max_concurrency: int = Field(default=1024, ge=1)
    """Answers that are sampled at once, over all servers; further calls wait."""

    @field_validator("base_url")
    @classmethod
    def _no_repeats(cls, value: str | list[str]) -> str | list[str]:
        if isinstance(value, list) and len(set(value)) < len(value):
            raise ValueError("names a server twice")
        return value

    @field_validator("sampling_overrides")
    @classmethod
    def _known_to_sglang(cls, value: JsonObject) -> JsonObject:
        if unknown := unknown_names(value):
            raise ValueError(f"not passed on to SGLang: {', '.join(unknown)}")
        return value

    @property
    def experts_per_token(self) -> int:
        """Of the `config.json` beside the tokenizer: SGLang gives experts without their shape. ConfigError
        `routed_experts_missing` where it does not say."""
        path = self.tokenizer_folder / "config.json"
        try:
            given = json.loads(path.read_text("utf-8"))
            found = {**given, **given.get("text_config", {})}["num_experts_per_tok"]
            if type(found) is int and found > 0:
                return found
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            pass
        raise ConfigError(
            f"routed_experts: {path} names no `num_experts_per_tok`: the model has to be a mixture of experts",
            kind="routed_experts_missing",
        )

    @property
    def urls(self) -> list[str]:
        """Roots of the servers, without `/v1`."""
        return [url.removesuffix("/v1") for url in bare_urls(self.base_url)]

    @property
    def key(self) -> str | None:
        return secret_text(self.api_key)
