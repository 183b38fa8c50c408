"""The floor of `/verify`: one bare FastAPI handler with orjson and the same comparator, answering in the same form."""

import argparse
from typing import Any

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response

from paddock.resources_servers.pivot import compat, layered, semantic
from paddock.resources_servers.pivot.task import ActionComparison, read_expected

COMPAT = compat.CompatOptions()
LAYERED = layered.LayeredOptions()
SEMANTIC = semantic.SemanticOptions()


def judge(comparator: str, body: dict[str, Any]) -> ActionComparison:
    expected = read_expected(body)
    if comparator == "compat":
        return compat.compare(expected, body["response"], COMPAT)
    if comparator == "layered":
        return layered.compare(expected, body["response"], LAYERED)
    return semantic.compare(expected, body["response"], body["responses_create_params"], SEMANTIC)


def answer(comparator: str, body: dict[str, Any]) -> dict[str, Any]:
    comparison = judge(comparator, body)
    verdict = {
        "reward": comparison.reward,
        "reason": comparison.reason,
        "comparator": comparator,
        "detail": comparison.detail,
        "metrics": dict(comparison.metrics),
    }
    return {**body, "reward": comparison.reward, **comparison.extras, "verdict": verdict}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--comparator", required=True)
    args = parser.parse_args()
    app = FastAPI()

    @app.post("/verify")
    async def verify(request: Request) -> Response:
        return Response(orjson.dumps(answer(args.comparator, orjson.loads(await request.body()))))

    uvicorn.run(app, port=args.port, http="httptools", loop="uvloop", access_log=False, log_level="error")


if __name__ == "__main__":
    main()
