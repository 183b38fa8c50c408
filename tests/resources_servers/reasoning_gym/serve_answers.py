"""Judges answers by our server, under an interpreter that has reasoning-gym.

Standard input, JSON: `cases`, a list of `{"row", "text"}`, and `config`; standard output: `reward` and `reason`,
or `owner`, `kind` and `message`, of each.
"""

import asyncio
import json
import sys
from typing import Any

from paddock.errors import PaddockError
from paddock.http import VERIFY, Call, VerifyRequest, read_row
from paddock.resources_servers.reasoning_gym.server import ReasoningGymConfig, ReasoningGymServer
from paddock.testing.transports import over
from paddock.types.responses import make_response, message_item


async def judge(given: dict[str, Any]) -> list[dict[str, Any]]:
    config = ReasoningGymConfig(**given["config"])
    found: list[dict[str, Any]] = []
    async with over("direct", ReasoningGymServer(config, name="reasoning_gym", peers={})) as peers:
        for case in given["cases"]:
            row = read_row(case["row"])
            response = make_response([message_item(case["text"])], row.responses_create_params, model="policy")
            try:
                verdict = await peers["reasoning_gym"].call(VERIFY, VerifyRequest(row=row, response=response), Call())
                found.append({"reward": verdict.reward, "reason": verdict.reason})
            except PaddockError as error:
                found.append({"owner": error.owner, "kind": error.kind, "message": error.message})
    return found


if __name__ == "__main__":
    json.dump(asyncio.run(judge(json.load(sys.stdin))), sys.stdout)
