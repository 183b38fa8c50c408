"""A server in NeMo-Gym's form whose verdicts are made by Ray; under NeMo-Gym's interpreter."""

# mypy: ignore-errors

import asyncio
import os

import ray
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from pydantic import ConfigDict


class RayResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")


@ray.remote
def pid() -> int:
    return os.getpid()


class RayServer(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    async def verify(self, body: BaseVerifyRequest) -> RayResponse:
        there = await asyncio.to_thread(ray.get, pid.remote())
        return RayResponse(**body.model_dump(), reward=float(there != os.getpid()), resources=ray.cluster_resources())


if __name__ == "__main__":
    RayServer.run_webserver()
