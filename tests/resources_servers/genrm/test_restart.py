"""A claim about a server that is killed: what its group has is there when it comes back."""

import asyncio
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.processes import CommandProcess, running

from paddock.errors import InfraError
from paddock.http import VERIFY, Call, HttpPeer, Peer, VerifyRequest, token_for
from paddock.http.client import RetryPolicy
from paddock.http.transport import make_client
from paddock.resources_servers.genrm.groups.schema import FILE
from paddock.testing import over
from paddock.testing.judges import ScriptedJudge, ScriptedJudgeConfig
from paddock.types import Row, Stamp
from paddock.types.responses import make_response, message_item

TEXTS = ["a", "b", "slow c", "d"]
ONCE = RetryPolicy(attempts=1)


def asked(member: int) -> VerifyRequest:
    stamp = Stamp(run_id="run", group_id=0, group_size=4, member=member, attempt=0)
    response = {**make_response([], {}, model="m"), "id": f"r{member}", "created_at": 0}
    response["output"] = [{**message_item(TEXTS[member]), "id": "m"}]
    return VerifyRequest(row=Row(responses_create_params={"input": "Go."}, stamp=stamp), response=response)


def answers_on_disk(state: Path) -> int:
    with closing(sqlite3.connect(state / FILE)) as db:
        return int(db.execute("SELECT count(*) FROM answers WHERE answer IS NOT NULL").fetchone()[0])


@contextmanager
def served(config: Path) -> Iterator[tuple[CommandProcess, str]]:
    with running("paddock", "serve", config) as command:
        yield command, next(word for word in command.line("resources_servers/genrm").split() if word.startswith("http"))


@pytest.mark.cli
@pytest.mark.slow
async def test_a_group_survives_a_server_that_is_killed(tmp_path: Path) -> None:
    likes = ScriptedJudgeConfig(prefers="hash", hang_needle="slow")
    judge = ScriptedJudge(likes, name="judge", peers={})
    async with over("http", judge) as peers, make_client() as client:
        config = tmp_path / "config.json"
        config.write_bytes(orjson.dumps(_tree(peers["judge"], tmp_path / "state")))
        with served(config) as (command, url):
            server = HttpPeer("genrm", client, url, retry=ONCE, token=token_for(url))
            waiting = [asyncio.create_task(server.call(VERIFY, asked(member), Call())) for member in range(4)]
            async with asyncio.timeout(60):
                while judge.requests < 4 or answers_on_disk(tmp_path / "state") < 2:
                    await asyncio.sleep(0.01)
            command.send(signal.SIGKILL)
            for error in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(error, InfraError)
        judge.config = likes.model_copy(update={"hang_needle": None})
        with served(config) as (_, url):
            server = HttpPeer("genrm", client, url, retry=ONCE, token=token_for(url))
            verdicts = [await server.call(VERIFY, asked(member), Call().within(60.0)) for member in (3, 0)]
    assert {verdict.reason for verdict in verdicts} == {"scored"}, "the others' responses were there"
    assert judge.requests == 6, "only what had no answer was asked again"


def _tree(judge: Peer, state: Path) -> dict[str, Any]:
    assert isinstance(judge, HttpPeer)
    model = {"base_url": f"{judge.base_url}/v1", "model": "judge", "upstream_api": "responses"}
    reference = {"type": "models_servers", "name": "judge"}
    genrm = {"genrm_model_server": reference, "judges_read_metadata": True, "state_dir": str(state)}
    return {"genrm": {"resources_servers": {"genrm": genrm}}, "judge": {"models_servers": {"openai": model}}}
