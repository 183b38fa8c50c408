"""A proxy that passes on and keeps nothing, of FastAPI, uvicorn, aiohttp and orjson; a program.

It has nothing to render or to tokenise: the ids of each length of history lie there, `PROMPTS/TURNS.json`. What it adds
to a call is what any such proxy adds on the machine at hand.
"""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse


def _text(data: bytes) -> str:
    ids = orjson.loads(data)["choices"][0]["token_ids"]
    return "".join(f"{one} " for one in ids)


def _app(upstream: str, prompts: dict[str, list[int]]) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with aiohttp.ClientSession() as app.state.client:
            yield

    app = FastAPI(lifespan=lifespan)

    def ask(body: dict[str, Any], turns: str) -> Any:
        params = {"max_tokens": body["max_output_tokens"], "top_k": body["top_k"], "logprobs": 0}
        stream = body.get("stream", False)
        generate = {"model": "scripted", "token_ids": prompts[turns], "sampling_params": params, "stream": stream}
        return app.state.client.post(f"{upstream}/inference/v1/generate", data=orjson.dumps(generate))

    async def events(body: dict[str, Any], turns: str) -> AsyncIterator[bytes]:
        async with ask(body, turns) as answer:
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    event = {"type": "response.output_text.delta", "delta": _text(line[len("data: ") :])}
                    yield b"data: %s\n\n" % orjson.dumps(event)
        yield b"data: [DONE]\n\n"

    @app.get("/health")
    async def health() -> Response:
        return Response()

    @app.post("/r/{turns}/v1/responses")
    async def responses(request: Request, turns: str) -> Response:
        body = orjson.loads(await request.body())
        if body.get("stream"):
            return StreamingResponse(events(body, turns), media_type="text/event-stream")
        async with ask(body, turns) as answer:
            content = [{"type": "output_text", "text": _text(await answer.read())}]
        message = {"type": "message", "role": "assistant", "content": content}
        return Response(orjson.dumps({"output": [message]}))

    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True, help="its base URL")
    parser.add_argument("--prompts", type=Path, required=True)
    args = parser.parse_args()
    prompts = {file.stem: orjson.loads(file.read_bytes()) for file in args.prompts.glob("*.json")}
    app = _app(args.upstream, prompts)
    uvicorn.run(app, port=args.port, http="httptools", loop="uvloop", access_log=False, log_level="error")


if __name__ == "__main__":
    main()
