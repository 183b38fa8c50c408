"""Rollouts over NeMo-RL's chat server with a real vLLM behind it: exact by its own account, and scored alike again.

The chat server is the scripted one, which renders, splices and enforces the rules; the tiny model's vLLM samples. A
native harness works in real sandboxes, several rollouts at once, through our model server in its `spliced` mode.
"""

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
import pytest
from pydantic import BaseModel, ConfigDict
from tests.support.nemo_rl import NemoRlCall, NemoRlChat, Sampling
from tests.support.real_vllm import MAX_TOKENS, RealVllm

from paddock.agents.swe import SweAgent
from paddock.agents.swe.config import SweAgentConfig
from paddock.http import RUN, Call
from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.sandbox import SandboxError, SandboxLimits, SandboxSettings
from paddock.server import ResourcesServer, ServerConfig
from paddock.testing import over
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.tokens import ChatTemplate, Vocabulary
from paddock.tokens.export import Sample, inline, samples
from paddock.types import REWARDED, JsonObject, Rollout, Row, Session, Stamp, TurnRecord, Verdict
from paddock.types.responses import calls

pytestmark = [pytest.mark.vllm, pytest.mark.sandbox]
ROLLOUTS, TURNS = 6, 5
MEAN, MAX = 2e-6, 1e-4
RESPELLED = "else call.function.arguments | tojson", "else call.function.arguments | tojson(separators=(',', ':'))"
"""The model's own template, but that it writes calls of the past as no model sampled them."""
READ = """
import json, sys
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

found = []
for body in json.load(open(sys.argv[1])):
    messages = ChatCompletionRequest.model_validate(body).messages
    kept = [each for each in messages if "prompt_token_ids" in each]
    found.append([*kept[-1]["prompt_token_ids"], *kept[-1]["generation_token_ids"]] if kept else None)
print(json.dumps(found))
"""
FILES = {"calc.py": "def add(a, b):\n    return a - b\n", "README.md": "A calculator.\n"}


class TextTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int


class TextEnvironment(ResourcesServer[ServerConfig, TextTask]):
    """The same small repository for all; each rollout's text is its own."""

    task_type = TextTask

    async def seed_session(self, task: TextTask, row: Row) -> Session:
        visible = {"instance_id": f"calc-{task.number}", "problem_statement": f"add(1, {task.number}) is wrong."}
        return Session(image="calc", workdir=WORKDIR, visible=visible)

    async def verify(self, task: TextTask, row: Row, response: JsonObject) -> Verdict:
        return Verdict(reward=float(bool(response["model_patch"])), reason="changed")


class RolloutsRun(NamedTuple):
    rollouts: list[Rollout]
    seen: list[NemoRlCall]
    bodies: list[JsonObject]
    """Of the requests."""
    refused: list[str]
    respelled: int
    """Prompts that the template would have written otherwise than they were spliced."""

    @property
    def samples(self) -> list[Sample]:
        return [
            sample
            for rollout in self.rollouts
            for sample in samples(TurnRecord(engine=rollout.engine or "text", turns=rollout.turns), "branch")
        ]


@pytest.fixture(scope="module")
def rollouts_run(real_vllm: RealVllm, tmp_path_factory: pytest.TempPathFactory) -> RolloutsRun:
    with sandbox_home() as home:
        try:
            repository_image(store_of(home), "calc", FILES)
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        return asyncio.run(_play(real_vllm, home, tmp_path_factory.mktemp("turns")))


async def _play(vllm: RealVllm, home: Path, folder: Path) -> RolloutsRun:
    engine = VllmEngine(VllmConfig(model=str(vllm.model), base_url=vllm.engine_url), name="policy")
    vocabulary = Vocabulary.load(vllm.model)
    template = ChatTemplate((vocabulary.chat_template or "").replace(*RESPELLED), vocabulary.special_texts)
    await engine.start()
    try:
        async with NemoRlChat(engine, vocabulary, template, Sampling(1.0, 1.0), max_model_len=MAX_TOKENS) as chat:
            rollouts = await _rollouts(chat, vllm, home, folder)
            answered = [chat.render(body) for body in chat.bodies]
            prompts = {tuple(seen.prompt) for seen in chat.seen}
            respelled = sum(tuple(ids) not in prompts for ids in answered)
            return RolloutsRun(rollouts, chat.seen, chat.bodies, chat.refused, respelled)
    finally:
        await engine.stop()


async def _rollouts(chat: NemoRlChat, vllm: RealVllm, home: Path, folder: Path) -> list[Rollout]:
    spliced: JsonObject = {"engine": "spliced", "request_token_ids": True, "token_protocol": "nemo_rl"}
    given: JsonObject = {"base_url": chat.url, "model": "policy", "turn_store": {"folder": folder}, **spliced}
    peers: dict[str, Any] = {}
    config = SweAgentConfig(
        resources_server={"type": "resources_servers", "name": "world"},
        model_server={"type": "models_servers", "name": "policy"},
        harness=vllm.harness,
        agent_max_turns=TURNS,
        command_timeout_s=10,
        responses_create_params={"temperature": 1.0, "top_p": 1.0, "max_output_tokens": 160},
        sandbox=SandboxSettings(home=home, runtime="bubblewrap"),
        limits=SandboxLimits(memory_mib=512),
    )
    servers = (
        TextEnvironment(ServerConfig(), name="world", peers=peers),
        OpenAIServer(OpenAIConfig.model_validate(given), name="policy", peers=peers),
        SweAgent(config, name="agent", peers=peers),
    )
    async with over("direct", *servers) as found:
        rows = [
            Row(
                responses_create_params={"input": []},
                stamp=Stamp(run_id="r", group_id=number, group_size=1, member=0, attempt=0),
                task={"number": number},
            )
            for number in range(ROLLOUTS)
        ]
        return await asyncio.gather(*(found["agent"].call(RUN, row, Call()) for row in rows))


def test_rollouts_of_several_turns_end_with_a_reward(rollouts_run: RolloutsRun) -> None:
    assert [rollout.failure for rollout in rollouts_run.rollouts if rollout.outcome not in REWARDED] == []
    assert rollouts_run.refused == []
    assert sum(len(rollout.turns) >= 3 for rollout in rollouts_run.rollouts) >= ROLLOUTS / 2
    assert sum(len(calls(turn.output)) for rollout in rollouts_run.rollouts for turn in rollout.turns) > ROLLOUTS


def test_what_is_trained_on_is_what_the_engine_was_given_and_what_it_sampled_each_once(
    rollouts_run: RolloutsRun,
) -> None:
    exported = [
        (sample.ids[: span.start], sample.ids[span.start : span.end], sample.log_probs[span.start : span.end])
        for sample in rollouts_run.samples
        for span in sample.spans
        if span.trained
    ]
    assert sorted(exported) == sorted((seen.prompt, seen.sampled, seen.log_probs) for seen in rollouts_run.seen)
    assert len(rollouts_run.samples) == len(rollouts_run.rollouts), "each rollout is one chain"
    assert not any(turn.splice_broken for rollout in rollouts_run.rollouts for turn in rollout.turns)


def test_the_template_alone_would_have_written_other_prompts(rollouts_run: RolloutsRun) -> None:
    """Else nothing was proven about splices."""
    assert rollouts_run.respelled > ROLLOUTS
    assert rollouts_run.respelled <= sum(seen.spliced for seen in rollouts_run.seen)


def test_the_inline_form_grows_from_item_to_item(rollouts_run: RolloutsRun) -> None:
    for rollout in rollouts_run.rollouts:
        seen: list[int] = []
        told = [item for item in inline(rollout)["response"]["output"] if item.get("generation_token_ids")]
        for item in told:
            assert item["prompt_token_ids"][: len(seen)] == seen
            seen = item["prompt_token_ids"] + item["generation_token_ids"]
        assert len(told) == len(rollout.turns)


def test_vllms_own_form_of_a_request_keeps_the_ids_where_the_real_server_looks_for_them(
    rollouts_run: RolloutsRun, vllm_python: str, tmp_path: Path
) -> None:
    """It drops what it does not know of some messages; NeMo-RL's server reads the messages that it has kept."""
    (tmp_path / "bodies.json").write_bytes(orjson.dumps(rollouts_run.bodies))
    command = [vllm_python, "-c", READ, str(tmp_path / "bodies.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    read = orjson.loads(done.stdout.splitlines()[-1])
    assert read == [spliced_ids(body) for body in rollouts_run.bodies]
    assert sum(ids is not None for ids in read) == sum(seen.spliced for seen in rollouts_run.seen)


def spliced_ids(body: JsonObject) -> list[int] | None:
    spoken = [message for message in body["messages"] if message["role"] == "assistant"]
    last = spoken[-1] if spoken else {}
    return [*last["prompt_token_ids"], *last["generation_token_ids"]] if "prompt_token_ids" in last else None


def test_the_engine_scores_each_sample_as_it_sampled_it(rollouts_run: RolloutsRun, real_vllm: RealVllm) -> None:
    differences: list[float] = []
    with httpx.Client(base_url=real_vllm.engine_url, timeout=60) as client:
        for sample in rollouts_run.samples:
            scores = _scores(client, real_vllm.model, sample.ids)
            on = (place for place, trained in enumerate(sample.loss_mask) if trained)
            differences += [abs(scores[place] - sample.log_probs[place]) for place in on]
    assert sum(differences) / len(differences) < MEAN, f"of {len(differences)}"
    assert max(differences) < MAX


def _scores(client: httpx.Client, model: Path, ids: Sequence[int]) -> list[float]:
    """Log-prob of each id but the first, all as one prompt."""
    body: JsonObject = {"model": str(model), "prompt": ids, "prompt_logprobs": 0, "max_tokens": 1, "temperature": 1}
    answer = client.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    told: list[Any] = answer.json()["choices"][0]["prompt_logprobs"]
    return [0.0, *(one[str(token)]["logprob"] for one, token in zip(told[1:], ids[1:], strict=True))]
