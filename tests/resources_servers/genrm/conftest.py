"""A stage for GenRM servers: one scripted judge, servers that share a state folder, and members of groups."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock.http import VERIFY, WITHDRAW, Call, Peer, VerifyRequest
from paddock.resources_servers.genrm import GenrmServer
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.testing import Transport, over
from paddock.testing.judges import ScriptedJudge, ScriptedJudgeConfig
from paddock.types import JsonObject, Row, Stamp, Verdict
from paddock.types.responses import make_response, message_item

REFERENCE = {"type": "models_servers", "name": "judge"}


class BreakableJudge(ScriptedJudge):
    """Answers prose while `breaks` says so of the two texts."""

    breaks: Callable[[str, str], bool] = staticmethod(lambda _first, _second: False)

    async def responses(self, body: JsonObject, call: Call) -> JsonObject:
        reply = await super().responses(body, call)
        metadata = body["metadata"]
        if self.breaks(metadata["response_1"], metadata["response_2"]):
            reply["output"] = [message_item("I can't say.")]
        return reply

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Pairs of texts, in the order of the questions."""
        return [(body["metadata"]["response_1"], body["metadata"]["response_2"]) for body in self.seen]


class GenrmStage:
    def __init__(self, judges: list[BreakableJudge], peers: list[Peer], servers: list[GenrmServer]) -> None:
        self.judge = judges[0]
        self.judges = judges
        self.peers = peers
        self.servers = servers

    async def verify(
        self,
        member: int | None,
        text: str,
        *,
        at: int = 0,
        prompt: str = "Say something.",
        call: Call | None = None,
        **stamp: Any,
    ) -> Verdict:
        """`call`: None: one of its own."""
        row = self.row(member, prompt=prompt, **stamp)
        response = {**make_response([message_item(text)], {}, model="policy"), "id": f"resp_{text}"}
        response["output"][0]["id"] = "msg"
        response["created_at"] = 0
        return await self.peers[at].call(VERIFY, VerifyRequest(row=row, response=response), call or Call())

    async def group(self, texts: list[str], **stamp: Any) -> list[Verdict]:
        members = [self.verify(member, text, size=len(texts), **stamp) for member, text in enumerate(texts)]
        return list(await asyncio.gather(*members))

    def row(
        self, member: int | None, *, prompt: str = "Say something.", task: JsonObject | None = None, **stamp: Any
    ) -> Row:
        size, bare = stamp.pop("size", 4), stamp.pop("bare", False)
        named = {} if bare else {"run_id": "run", "group_id": 0, "group_size": size, "attempt": 0}
        whole = Stamp(**{**named, "member": member, **stamp})
        return Row(responses_create_params={"input": prompt}, stamp=whole, task=task or {})

    @staticmethod
    async def until(holds: Callable[[], bool], *, within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not holds():
                await asyncio.sleep(0.005)

    async def withdraw(self, member: int, *, at: int = 0, **stamp: Any) -> None:
        await self.peers[at].call(WITHDRAW, self.row(member, **stamp), Call())


@asynccontextmanager
async def open_stage(
    folder: Path,
    *,
    transport: Transport = "direct",
    servers: int = 1,
    judge: JsonObject | None = None,
    others: Sequence[JsonObject] = (),
    **config: Any,
) -> AsyncIterator[GenrmStage]:
    """`judge`, `others`: settings of the first judge and of further ones; `config`: of every server."""
    scripted: list[BreakableJudge] = []
    for nth, likes in enumerate([judge or {}, *others]):
        named = f"{REFERENCE['name']}{nth or ''}"
        scripted.append(
            BreakableJudge(ScriptedJudgeConfig.model_validate({"prefers": "hash", **likes}), name=named, peers={})
        )
    references = [{**REFERENCE, "name": one.name} for one in scripted]
    settings = GenrmConfig.model_validate({"genrm_model_server": references, "state_dir": folder, **config})
    peers: dict[str, Peer] = {}
    made = [GenrmServer(settings, name=f"genrm{nth}", peers=peers) for nth in range(servers)]
    async with over(transport, *scripted, *made) as peers_by_name:
        peers.update(peers_by_name)
        yield GenrmStage(scripted, [peers_by_name[server.name] for server in made], made)


@pytest.fixture(scope="session")
def stage_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., AbstractAsyncContextManager[GenrmStage]]:
    """With a state folder of its own, unless one is given."""

    def of(folder: Path | None = None, **given: Any) -> AbstractAsyncContextManager[GenrmStage]:
        return open_stage(folder or tmp_path_factory.mktemp("genrm"), **given)

    return of
