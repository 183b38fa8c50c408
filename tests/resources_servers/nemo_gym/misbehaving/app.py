"""A server in NeMo-Gym's form that does what a row's `ask` says, most of it wrong; under NeMo-Gym's interpreter."""

# mypy: ignore-errors

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import HTTPException
from fastapi.responses import StreamingResponse
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.openai_utils import NeMoGymAsyncOpenAI
from pydantic import ConfigDict

from nemo_gym.config_types import ModelServerRef
from nemo_gym.server_utils import get_response_json


class MisbehavingConfig(BaseResourcesServerConfig):
    fail_at_start: bool = False
    children: str
    judge_model_server: ModelServerRef | None = None
    judge_base_url: str = ""


class AskedRequest(BaseVerifyRequest):
    model_config = ConfigDict(extra="allow")
    ask: str = "right"


class AskedResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")


async def _endless() -> AsyncIterator[bytes]:
    while True:
        yield b" " * (1 << 16)


class MisbehavingServer(SimpleResourcesServer):
    config: MisbehavingConfig

    def setup_webserver(self) -> Any:
        if self.config.fail_at_start:
            raise RuntimeError("the data of this server are not there")
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        with Path(self.config.children).open("a") as file:
            file.write(f"{os.getpid()}\n{child.pid}\n")
        return super().setup_webserver()

    async def verify(self, body: AskedRequest) -> AskedResponse:
        reward: Any = 1.0
        match body.ask:
            case "raise":
                raise KeyError("no such answer")
            case "refuse":
                raise HTTPException(422, "no answer of a form that is known")
            case "hang":
                await asyncio.sleep(600)
            case "flood":
                return StreamingResponse(_endless(), media_type="application/json")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "nan":
                reward = float("nan")
            case "variables":
                reward = float(not any("SECRET" in name or name == "NEMO_GYM_CONFIG_DICT" for name in os.environ))
            case "judge_by_url":
                reward = await self._judged_by_url()
            case "judge" | "judge_swallowed":
                reward = await self._judged(swallow=body.ask == "judge_swallowed")
        return AskedResponse(**body.model_dump(), reward=reward)

    async def _judged_by_url(self) -> float:
        client = NeMoGymAsyncOpenAI(base_url=self.config.judge_base_url, api_key="none")
        try:
            reply = await client.create_response(model="judge", input="Is it right?")
        except Exception:
            return 0.0
        return float(reply["output"][0]["content"][0]["text"] == "yes")

    async def _judged(self, *, swallow: bool) -> float:
        assert self.config.judge_model_server is not None
        reply = await self.server_client.post(
            self.config.judge_model_server.name, "/v1/responses", json={"input": "Is it right?"}
        )
        if not reply.ok:
            if swallow:
                return 0.0
            raise RuntimeError("the judge is down")
        text = (await get_response_json(reply))["output"][0]["content"][0]["text"]
        return float(text == "yes")


if __name__ == "__main__":
    MisbehavingServer.run_webserver()
