"""What the recipe's published client and agent loop asked of this server, asked again: `exchange.jsonl`.

A line is a request and its answer, in their order, with `lease-N` for the N-th lease. The first twelve are a rollout
whose model was a script: a look, a reply without a command, a fix, its submission, and the evaluation. Then come single
calls of the client: a time limit, a failing command, a diff, three evaluations, and what it can't get.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox_server.swe_rl.conftest import Serve, SweRlServer

pytestmark = pytest.mark.sandbox
LINES = Path(__file__).with_name("exchange.jsonl").read_text().splitlines()
LEASE = re.compile(r"swe-[0-9a-f]{32}")


@pytest.mark.slow
async def test_a_recorded_exchange_goes_as_it_went(serve: Serve) -> None:
    server = await serve()
    names: dict[str, str] = {}
    for line in LINES:
        recorded = json.loads(line)
        body = {
            key: names.get(value, value) if key == "lease_id" else value for key, value in recorded["request"].items()
        }
        response = await server.post(recorded["path"], **body)
        if recorded["path"] == "/allocate" and response.json()["ok"]:
            names[recorded["answer"]["lease_id"]] = response.json()["lease_id"]
        assert response.status_code == recorded["status"]
        answer = as_recorded(response.json(), names, server)
        if recorded["path"] == "/evaluate":
            for words in ("output", "error"):  # Python's and git's own, which differ by version
                assert (words in answer) is (words in recorded["answer"])
                answer.pop(words, None), recorded["answer"].pop(words, None)
        assert answer == recorded["answer"], recorded["path"]
    assert server.provider.live() == []


def as_recorded(answer: Any, names: dict[str, str], server: SweRlServer) -> Any:
    text = json.dumps(answer).replace(server.url, "http://server").replace(str(server.provider.settings.home), "HOME")
    known = {lease_id: name for name, lease_id in names.items()}
    return json.loads(LEASE.sub(lambda match: known[match[0]], text))
