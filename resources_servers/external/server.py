"""A resources server that runs elsewhere, one of ours or of NeMo-Gym's: each call is passed on to its URL.

Law     rows, verdicts and errors are the other server's own; nothing is judged here. One that keeps a session in a
        cookie can't be asked: calls of a rollout share none.
Errors  what the other server raised, by owner; InfraError where it can't be reached or gives no verdict of its form.
"""

from collections.abc import Mapping
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from paddock.errors import BugError
from paddock.http import AGGREGATE, SEED, VERIFY, Call, HttpPeer, Peer, Route, VerifyRequest
from paddock.http.access import stored_token
from paddock.http.transport import make_client
from paddock.server import ResourcesServer, ServerConfig
from paddock.server.base import Handler
from paddock.server.fields import secret_text
from paddock.types import JsonObject, Row, Session, Verdict


class ExternalConfig(ServerConfig):
    """Where the server is."""

    base_url: str
    """The server's root URL, as http://10.0.0.7:5003."""
    token: SecretStr | None = Field(default=None, repr=False)
    """What it asks its callers for; None or empty: nothing, or what a server of this user has left for them."""
    needs: tuple[str, ...] = ()
    """What has to run beside it, such as a judge; printed by `paddock train --dry-run`, read by nobody else."""

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("needs the URL of a running server, such as http://127.0.0.1:5003")
        return value


class ForwardedTask(BaseModel):
    """A task is the other server's business."""

    model_config = ConfigDict(frozen=True, extra="allow")


class ExternalServer(ResourcesServer[ExternalConfig, ForwardedTask]):
    config_type = ExternalConfig
    task_type = ForwardedTask

    def __init__(self, config: ExternalConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._client: httpx.AsyncClient | None = None

    async def start(self) -> None:
        self._client = make_client()

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {SEED: self._pass_row, VERIFY: self._pass_response, AGGREGATE: self._aggregate}

    async def verify(self, task: ForwardedTask, row: Row, response: JsonObject) -> Verdict:
        raise BugError(f"{self.name}: judges at {self.config.base_url}, not here: verify it there", kind="external")

    async def _pass_row(self, row: Row, call: Call) -> Session:
        return await self._peer.call(SEED, row, call)

    async def _pass_response(self, request: VerifyRequest, call: Call) -> Verdict:
        return await self._peer.call(VERIFY, request, call)

    @property
    def _peer(self) -> HttpPeer:
        if self._client is None:
            raise BugError(f"{self.name}: was not started", kind="not_started")
        url = self.config.base_url
        return HttpPeer(self.name, self._client, url, token=secret_text(self.config.token) or stored_token(url))
