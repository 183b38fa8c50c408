"""Config of a genrm model server: where the judge is, how it is asked, and for how long.

Units   seconds.
Errors  a field that can't be used is refused when the config is read.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, field_validator

from paddock.server import ServerConfig
from paddock.types import JsonObject


def _or_empty(value: Any) -> Any:
    return {} if value is None else value


Block = Annotated[JsonObject, BeforeValidator(_or_empty)]


class GenrmModelConfig(ServerConfig):
    """One judge."""

    model: str
    """Its name at the endpoint; clients' own names for it are not passed on."""
    base_url: str | list[str]
    """Base URL of an endpoint that speaks Chat Completions, with `/v1`; several take turns, and one that has just
    failed is passed over."""
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
    default_headers: Annotated[dict[str, str], BeforeValidator(_or_empty)] = Field(default={}, repr=False)
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

    @field_validator("base_url")
    @classmethod
    def _usable(cls, value: str | list[str]) -> str | list[str]:
        urls = [value] if isinstance(value, str) else value
        if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
            raise ValueError("needs a URL such as http://127.0.0.1:8000/v1, or a list of them")
        return value

    @property
    def urls(self) -> list[str]:
        """Base URLs without a slash at the end."""
        urls = [self.base_url] if isinstance(self.base_url, str) else self.base_url
        return [url.rstrip("/") for url in urls]

    @property
    def key(self) -> str | None:
        return self.api_key.get_secret_value() or None if self.api_key else None
