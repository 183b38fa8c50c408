"""An openai server in front of a scripted upstream, as its clients reach it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.models import ModelClient, asking

from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.testing import ScriptedUpstream, Transport
from paddock.types import JsonObject

Proxied = Callable[..., AbstractAsyncContextManager[tuple[ModelClient, OpenAIServer]]]


@pytest.fixture
def proxied(tmp_path: Path) -> Proxied:
    """`async with proxied(upstream, transport="direct", **config) as (client, server)`."""

    @asynccontextmanager
    async def open_proxy(
        upstream: ScriptedUpstream,
        *,
        second: ScriptedUpstream | None = None,
        transport: Transport = "direct",
        **config: Any,
    ) -> AsyncIterator[tuple[ModelClient, OpenAIServer]]:
        urls = [upstream.url, second.url] if second else upstream.url
        settings: JsonObject = {"base_url": urls, "model": "policy", "first_retry_s": 0.001, "max_retry_s": 0.01}
        settings |= {"turn_store": {"folder": str(tmp_path / "turns")}, **config}
        server = OpenAIServer(OpenAIConfig.model_validate(settings), name="m", peers={})
        async with asking(transport, server) as client:
            yield client, server

    return open_proxy
