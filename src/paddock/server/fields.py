"""Types of fields that the blocks of several model servers have.

Errors  ValueError for a URL that can't be used, which a config's check gives its place.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SecretStr

from paddock.types import JsonObject


def _or_empty(value: Any) -> Any:
    return {} if value is None else value


def _usable(value: str | list[str]) -> str | list[str]:
    urls = [value] if isinstance(value, str) else value
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise ValueError("needs a URL such as http://127.0.0.1:8000/v1, or a list of them")
    return value


Block = Annotated[JsonObject, BeforeValidator(_or_empty)]
"""Keys of a request; null is none."""
Headers = Annotated[dict[str, str], BeforeValidator(_or_empty)]
Urls = Annotated[str | list[str], AfterValidator(_usable)]
"""One or several."""


def bare_urls(value: str | list[str] | None) -> list[str]:
    """The URLs as a list, each without a slash at its end."""
    urls = [value] if isinstance(value, str) else value or []
    return [url.rstrip("/") for url in urls]


def secret_text(secret: SecretStr | None) -> str | None:
    """The text that a secret hides; None: there is none, or it is empty."""
    return secret.get_secret_value() or None if secret else None
