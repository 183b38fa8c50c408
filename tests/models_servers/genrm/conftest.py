"""A genrm model server in front of a scripted endpoint, as its clients reach it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from tests.support.models import ModelClient, asking

from paddock.models_servers.genrm import GenrmModelServer
from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.testing import ScriptedUpstream, Transport
from paddock.types import JsonObject

Judging = Callable[..., AbstractAsyncContextManager[tuple[ModelClient, GenrmModelServer]]]


@pytest.fixture
def judging() -> Judging:
    """`async with judging(upstream, transport="direct", **config) as (client, server)`."""

    @asynccontextmanager
    async def open_judge(
        *upstreams: ScriptedUpstream, transport: Transport = "direct", **config: Any
    ) -> AsyncIterator[tuple[ModelClient, GenrmModelServer]]:
        settings: JsonObject = {"model": "judge", "first_retry_s": 0.001, "max_retry_s": 0.01, **config}
        settings.setdefault("base_url", [upstream.url for upstream in upstreams])
        server = GenrmModelServer(GenrmModelConfig.model_validate(settings), name="judge", peers={})
        async with asking(transport, server) as client:
            yield client, server

    return open_judge
