"""The exact server that is measured: vLLM's, with a parser that gives the sampled ids as text, in any interpreter."""

from collections.abc import Sequence
from typing import ClassVar

from paddock.models_servers.vllm.server import VllmServer
from paddock.server.exact import Equipment
from paddock.types import JsonObject


class IdsParser:
    def feed(self, text: str, ids: Sequence[int], *, finished: bool) -> JsonObject | None:
        return {"content": "".join(f"{one} " for one in ids)} if ids else None

    def whole(self, text: str, ids: Sequence[int]) -> JsonObject:
        return {"content": "".join(f"{one} " for one in ids)}


class ProxyServer(VllmServer):
    OWN_PROCESS: ClassVar[bool] = False

    async def equip(self) -> Equipment:
        return (await super().equip())._replace(parsers=lambda tools, prompt_ids: IdsParser())
