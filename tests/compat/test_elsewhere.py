"""An environment that runs elsewhere, as the RLVR recipes declare them: NeMo-Gym's own server judges for our agent."""

import os
from typing import Any

import pytest
from tests.compat.test_nemo_gym import VARIABLE, theirs

from paddock.agents.single_step import SingleStepAgent
from paddock.agents.single_step.server import SingleStepConfig
from paddock.http import RUN, Call, Peer
from paddock.resources_servers.external import ExternalServer
from paddock.resources_servers.external.server import ExternalConfig
from paddock.server import Server
from paddock.testing.servers import EchoConfig, EchoModel
from paddock.testing.transports import over
from paddock.types import JsonObject, Rollout, Row

pytestmark = [pytest.mark.long]

PLACES = {
    "resources_server": {"type": "resources_servers", "name": "mcqa"},
    "model_server": {"type": "models_servers", "name": "policy_model"},
}
ROW: JsonObject = {
    "responses_create_params": {"input": [{"role": "user", "content": "Which is a prime? A: 4 B: 5. Box the letter."}]},
    "options": [{"A": "4"}, {"B": "5"}],
    "expected_answer": "B",
    "grading_mode": "strict_single_letter_boxed",
    "uuid": "prime",
}


async def answered(url: str, reply: str) -> Rollout:
    peers: dict[str, Peer] = {}
    config = SingleStepConfig.model_validate({**PLACES, "tools": "refuse"})
    servers: list[Server[Any]] = [
        ExternalServer(ExternalConfig(base_url=url), name="mcqa", peers=peers),
        EchoModel(EchoConfig(reply=reply), name="policy_model", peers=peers),
        SingleStepAgent(config, name="mcqa_simple_agent", peers=peers),
    ]
    async with over("direct", *servers) as at:
        return await at["mcqa_simple_agent"].call(RUN, Row.from_wire(ROW), Call())


async def test_what_a_server_elsewhere_rewards_is_the_rollouts_reward() -> None:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter: scripts/setup_nemo_gym.sh makes one")
    config = {"name": "mcqa", "domain": "knowledge"}
    with theirs(python, "resources_servers.mcqa.app:MCQAResourcesServer", config, {}) as url:
        right, wrong = [await answered(url, rf"\boxed{{{letter}}}") for letter in "BA"]
    assert (right.outcome, right.reward) == ("completed", 1.0)
    assert (wrong.outcome, wrong.reward) == ("completed", 0.0)
    assert right.verdict is not None
    assert right.verdict.extras["extracted_answer"] == "B"
    gone = await answered(url, r"\boxed{B}")
    assert (gone.outcome, gone.reward) == ("infra", None)
