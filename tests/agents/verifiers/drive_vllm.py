"""Runs under the interpreter that has verifiers: rows of an environment over a model server that runs.

python -m tests.agents.verifiers.drive_vllm FOLDER URL

FOLDER/agent.json has the agent's block, FOLDER/rows.jsonl the rows; the rollouts are FOLDER/rollouts.jsonl.
"""

import asyncio
import sys
from pathlib import Path

import orjson

from paddock.agents.verifiers import VerifiersAgent
from paddock.agents.verifiers.config import VerifiersAgentConfig
from paddock.http import RUN, Call, HttpPeer, Peer, token_for
from paddock.http.transport import make_client
from paddock.resources_servers.verifiers import VerifiersServer
from paddock.testing import over
from paddock.types import Rollout, Row, Stamp


async def main(folder: Path, url: str) -> None:
    client = make_client()
    peers: dict[str, Peer] = {"policy": HttpPeer("policy", client, url, token=token_for(url))}
    config = VerifiersAgentConfig.model_validate_json((folder / "agent.json").read_bytes())
    tasks = VerifiersServer(VerifiersServer.config_type(), name="tasks", peers=peers)
    agent = VerifiersAgent(config, name="agent", peers=peers)

    async def run(number: int, line: bytes) -> Rollout:
        stamp = Stamp(run_id="proof", group_id=number, group_size=1, member=0, attempt=0)
        wire = {"responses_create_params": {"input": [], "temperature": 1.0}, **orjson.loads(line)}
        row = Row.from_wire(wire).model_copy(update={"stamp": stamp})
        rollout: Rollout = await found["agent"].call(RUN, row, Call())
        return rollout

    try:
        async with over("direct", tasks, agent) as found:
            lines = (folder / "rows.jsonl").read_bytes().splitlines()
            rollouts = await asyncio.gather(*(run(number, line) for number, line in enumerate(lines)))
    finally:
        await client.aclose()
    (folder / "rollouts.jsonl").write_bytes(b"".join(orjson.dumps(one.to_wire()) + b"\n" for one in rollouts))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
