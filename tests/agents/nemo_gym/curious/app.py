"""An agent in NeMo-Gym's form that does what a row's `act` says, much of it wrong; under NeMo-Gym's interpreter."""

# mypy: ignore-errors

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, HTTPException, Request
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from pydantic import BaseModel, ConfigDict

from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.server_utils import get_response_json


class CuriousConfig(BaseResponsesAPIAgentConfig):
    resources_server: ResourcesServerRef
    model_server: ModelServerRef
    judge_model_server: ModelServerRef | None = None
    children: str


class CuriousRequest(BaseModel):
    model_config = ConfigDict(extra="allow")
    responses_create_params: dict[str, Any]
    act: str = "play"
    turns: int = 2


class CuriousAgent(SimpleResponsesAPIAgent):
    config: CuriousConfig

    def setup_webserver(self) -> Any:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        with Path(self.config.children).open("a") as file:
            file.write(f"{os.getpid()}\n{child.pid}\n")
        return super().setup_webserver()

    async def responses(self, request: Request, body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        reply = await self.server_client.post(self.config.model_server.name, "/v1/responses", json=body)
        if not reply.ok:
            raise HTTPException(502, f"the model: {reply.status}")
        return await get_response_json(reply)

    async def run(self, request: Request, body: CuriousRequest) -> Any:
        row = body.model_dump()
        seeded = await self.server_client.post(
            self.config.resources_server.name, "/seed_session", json=row, cookies=request.cookies
        )
        cookies = seeded.cookies
        response: Any = None
        items = list(body.responses_create_params["input"])
        for _ in range(body.turns):
            answer = await self.server_client.post(self.config.name, "/v1/responses", json={"input": items})
            if not answer.ok:
                if body.act != "swallow":
                    raise RuntimeError("the model is down")
                return {**row, "response": made_up_response(), "reward": 1.0}
            response = await get_response_json(answer)
            items = [*items, *response["output"], {"role": "user", "content": "go on"}]
        await self._misbehave(body.act)
        if body.act == "judge":
            judge = self.config.judge_model_server.name
            await self.server_client.post(judge, "/v1/responses", json={"input": "Is it right?"})
        verifying = self.server_client.post(
            self.config.resources_server.name, "/verify", json={**row, "response": response}, cookies=cookies
        )
        try:
            verified = await asyncio.wait_for(verifying, 0.5 if body.act == "impatient" else None)
        except TimeoutError:
            return {**row, "response": response, "reward": 0.0}
        if not verified.ok:
            return {**row, "response": response, "reward": 0.0}
        wire = await get_response_json(verified)
        match body.act:
            case "nan":
                return {**wire, "reward": "much"}
            case "no_response":
                del wire["response"]
        return wire

    async def _misbehave(self, act: str) -> None:
        match act:
            case "refuse":
                raise HTTPException(422, "no such task")
            case "raise":
                raise KeyError("no such answer")
            case "hang":
                await asyncio.sleep(600)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)


def made_up_response() -> dict[str, Any]:
    content = [{"type": "output_text", "text": "made up", "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": "r",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "output": [message],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }


if __name__ == "__main__":
    CuriousAgent.run_webserver()
