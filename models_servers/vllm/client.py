"""One vLLM server over HTTP: also its health, and its calls for new weights.

Errors  those of `paddock.server.upstream_failures`.
"""

from urllib.parse import urlencode

import orjson

from paddock.server.engine_client import EngineClient
from paddock.server.upstream_failures import upstream_errors
from paddock.types import JsonObject

BY_QUERY = ("/pause", "/sleep", "/wake_up")
"""Calls whose fields vLLM reads from the query."""


class VllmClient(EngineClient):
    """A client of one vLLM."""

    async def control(self, method: str, path: str, body: JsonObject, timeout_s: float) -> JsonObject:
        """The JSON that answers a call of vLLM's control, which may be empty. Some take their fields as a query."""
        target = f"{path}?{urlencode(body)}" if path in BY_QUERY else path
        with upstream_errors(self.host, timeout_s):
            answer = await self.send(
                method, target, orjson.dumps(body) if body and path not in BY_QUERY else None, timeout_s
            )
            json: JsonObject = self.json_of(answer) if answer.content or answer.status >= 300 else {}
            return json

    async def is_well(self, timeout_s: float) -> bool:
        """Whether `/health` answers 200; raises where it is not answered."""
        with upstream_errors(self.host, timeout_s):
            return (await self.send("GET", "/health", None, timeout_s)).status == 200
