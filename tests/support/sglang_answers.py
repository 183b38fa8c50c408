"""Answers of a real SGLang through our engine, also such as weights change within."""

import asyncio
from typing import Any

from tests.support.real_sglang import RealSglang

from paddock.http import Call
from paddock.models_servers.sglang.engine import SglangEngine
from paddock.server.exact.engine import Chunk
from paddock.types import JsonObject

PROMPT = list(range(20, 60))
LONG = 600


async def answer(
    engine: SglangEngine, prompt: list[int] = PROMPT, *, rollout: str = "s", stream: bool = True, **params: Any
) -> Chunk:
    """All chunks as one."""
    chunks = [chunk async for chunk in engine.generate(prompt, params, Call(), rollout=rollout, stream=stream)]
    ids = [one for chunk in chunks for one in chunk.ids]
    return chunks[-1]._replace(ids=ids, log_probs=[value for chunk in chunks for value in chunk.log_probs])


async def answer_over_new_weights(engine: SglangEngine, sglang: RealSglang, mode: str, **params: Any) -> Chunk:
    """An answer in whose middle the second model's weights come: once another, begun with it, has some tokens."""
    long: JsonObject = {"max_tokens": LONG, "ignore_eos": True}
    running = asyncio.ensure_future(answer(engine, **long, **params))
    beside, count = engine.generate(PROMPT, long, Call(), rollout="beside"), 0
    async for chunk in beside:
        count += len(chunk.ids)
        if count > 50:
            break
    await asyncio.to_thread(sglang.post, "/pause_generation", {"mode": mode})
    await asyncio.to_thread(sglang.set_weights, 1, "second", flush_cache=mode != "in_place")
    await asyncio.to_thread(sglang.post, "/continue_generation", {})
    await beside.aclose()
    found = await running
    assert (len(found.ids), found.finish_reason) == (LONG, "length")
    return found
