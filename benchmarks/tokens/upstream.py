"""An upstream with vLLM's route that takes and gives ids: bare FastAPI, uvicorn and orjson; a program.

Ids     every three of an answer say when they were sent (`stamps`).
Pace    a request's `top_k`: microseconds between chunks of three; 0: a stream's ids come in one chunk.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from benchmarks.tokens.stamps import stamp

LONGEST = 1_000_000


def _choice(ids: list[int], *, reason: str | None, log_prob: float = -0.5, total: int = 0) -> dict[str, Any]:
    entries = [{"token_id": one, "logprob": log_prob, "rank": 1} for one in ids]
    choice: dict[str, Any] = {
        "index": 0,
        "token_ids": ids,
        "logprobs": {"content": entries},
        "finish_reason": reason,
    }
    if reason is not None:
        choice["weight_versions"] = [{"version": "1", "start": 0, "end": total}]
    return choice


async def _events(chunks: int, pace_s: float) -> AsyncIterator[bytes]:
    due = time.monotonic()
    groups = [chunks] if not pace_s else [1] * chunks
    for nth, size in enumerate(groups):
        ids = [one for _ in range(size) for one in stamp()]
        reason = "length" if nth == len(groups) - 1 else None
        yield b"data: %s\n\n" % orjson.dumps({"choices": [_choice(ids, reason=reason, total=3 * chunks)]})
        due += pace_s
        if pace_s:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
    yield b"data: [DONE]\n\n"


def _app() -> FastAPI:
    app = FastAPI()

    @app.get("/health")
    async def health() -> Response:
        return Response()

    @app.get("/v1/models")
    async def models() -> Response:
        return Response(orjson.dumps({"data": [{"id": "scripted", "max_model_len": LONGEST}]}))

    @app.post("/inference/v1/generate")
    async def generate(request: Request) -> Response:
        body = orjson.loads(await request.body())
        params = body["sampling_params"]
        allowed = params.get("allowed_token_ids")
        if allowed:
            return Response(orjson.dumps({"choices": [_choice(allowed[:1], reason="length", log_prob=0.0, total=1)]}))
        chunks = params["max_tokens"] // 3
        if body["stream"]:
            pace_s = params.get("top_k", 0) / 1e6
            return StreamingResponse(_events(chunks, pace_s), media_type="text/event-stream")
        ids = [one for _ in range(chunks) for one in stamp()]
        return Response(orjson.dumps({"choices": [_choice(ids, reason="length", total=len(ids))]}))

    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    uvicorn.run(_app(), port=args.port, http="httptools", loop="uvloop", access_log=False, log_level="error")


if __name__ == "__main__":
    main()
