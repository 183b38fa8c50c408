"""A vLLM without a model, for rollouts of several turns: vLLM's route that takes and gives ids; a program.

Answer  `ANSWERS`, a JSON file, has the ids of each turn's. A prompt's turn is told by the ends of turns in it: it has
        `--first` of them at the first one, and two more (the answer's, the tool's) at each further one.
"""

import argparse
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response

LONGEST = 1_000_000


def _answer(ids: list[int], log_prob: float = -0.5) -> Response:
    choice = {
        "index": 0,
        "token_ids": ids,
        "logprobs": {"content": [{"token_id": one, "logprob": log_prob, "rank": 1} for one in ids]},
        "finish_reason": "stop",
        "weight_versions": [{"version": "0", "start": 0, "end": len(ids)}],
    }
    return Response(orjson.dumps({"choices": [choice]}))


def _app(answers: list[list[int]], end: int, first: int) -> FastAPI:
    app = FastAPI()

    @app.get("/health")
    async def health() -> Response:
        return Response()

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"data": [{"id": "scripted", "max_model_len": LONGEST}]}

    @app.post("/inference/v1/generate")
    async def generate(request: Request) -> Response:
        body = orjson.loads(await request.body())
        allowed = body["sampling_params"].get("allowed_token_ids")
        if allowed:
            return _answer(allowed[:1], log_prob=0.0)
        return _answer(answers[(body["token_ids"].count(end) - first) // 2])

    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("answers", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--end", type=int, required=True, help="the id that ends a turn")
    parser.add_argument("--first", type=int, required=True, help="how many of it the first prompt has")
    args = parser.parse_args()
    app = _app(orjson.loads(args.answers.read_bytes()), args.end, args.first)
    uvicorn.run(app, port=args.port, http="httptools", loop="uvloop", access_log=False, log_level="error")


if __name__ == "__main__":
    main()
