"""A resources server that runs elsewhere, one of ours or of NeMo-Gym's: each call is passed on to its URL.

Law and errors are those of `paddock.server.relay_server`.
"""

from pydantic import Field, SecretStr, field_validator

from paddock.http.access import stored_token
from paddock.server.fields import secret_text
from paddock.server.relay_server import Destination, ForwardingConfig, ForwardingServer


class ExternalConfig(ForwardingConfig):
    """Where the server is."""

    base_url: str
    """The server's root URL, as http://10.0.0.7:5003."""
    token: SecretStr | None = Field(default=None, repr=False)
    """What it asks its callers for; None or empty: nothing, or what a server of this user has left for them."""

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("needs the URL of a running server, such as http://127.0.0.1:5003")
        return value


class ExternalServer(ForwardingServer[ExternalConfig]):
    config_type = ExternalConfig

    def destination(self) -> Destination:
        url = self.config.base_url
        return Destination(url, secret_text(self.config.token) or stored_token(url))
