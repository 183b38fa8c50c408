"""Small servers that do on cue what real ones do on a bad day; named in a config as `paddock.testing.servers:Class`.

`CueServer`  resources: its config says how starting and stopping go, a row's `cue` how `/verify` goes.
`EchoModel`  a model that answers every request with one message, `reply`.
"""

import asyncio
import os
from typing import Literal

from pydantic import BaseModel, ConfigDict

from paddock.http import Call, ModelReply
from paddock.server import ModelServer, ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, TurnRecord, Verdict
from paddock.types.responses import make_response, message_item

Cue = Literal["answer", "fail", "hang", "hang_deaf", "die"]
DEAF_S = 60.0
"""How long a deaf handler ignores its cancellation."""


class CueConfig(ServerConfig):
    start: Cue = "answer"
    """How starting goes; `answer`: well."""
    stop: Cue = "answer"
    """How stopping goes, likewise."""
    secret: str = ""
    """Shown in verdicts as its length, to prove that it was read."""


class CueTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    cue: Cue = "answer"


class CueServer(ResourcesServer[CueConfig, CueTask]):
    config_type = CueConfig
    task_type = CueTask

    async def start(self) -> None:
        await act(self.config.start)

    async def stop(self) -> None:
        await act(self.config.stop)

    async def verify(self, task: CueTask, row: Row, response: JsonObject) -> Verdict:
        await act(task.cue)
        metrics = {"pid": os.getpid(), "secret_length": len(self.config.secret)}
        return Verdict(reward=1.0, reason="match", detail="as cued", metrics=metrics, extras={"heard": True})


async def act(cue: Cue) -> None:
    """Do what the cue says."""
    match cue:
        case "fail":
            raise ValueError("cued to fail")
        case "hang":
            await asyncio.Event().wait()
        case "hang_deaf":
            await _hang_deaf()
        case "die":
            os._exit(7)
        case "answer":
            return


async def _hang_deaf() -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + DEAF_S
    while loop.time() < end:
        try:
            await asyncio.sleep(end - loop.time())
        except asyncio.CancelledError:
            continue


class EchoConfig(ServerConfig):
    reply: str = "done"
    """Text of its one message."""


class EchoModel(ModelServer[EchoConfig]):
    config_type = EchoConfig

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        return make_response([message_item(self.config.reply)], body, model="echo")

    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        message = {"role": "assistant", "content": self.config.reply}
        return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])

    async def forget(self, secret: str) -> None:
        return
