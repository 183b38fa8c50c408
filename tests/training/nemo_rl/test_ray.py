"""The actor as NeMo-RL calls it: a real Ray, a real vLLM behind NeMo-RL's chat server, a harness in real sandboxes.

What the trainer gets is compared with what the engine saw and sampled, id by id.
"""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.support.nemo_rl import NemoRlChat, Sampling
from tests.support.nemo_rl.server import NemoRlCall
from tests.support.real_vllm import MAX_TOKENS, RealVllm
from tests.training.nemo_rl.ray_actor import actor_input, drive_actor
from tests.training.nemo_rl.trainer import rows
from tests.training.nemo_rl.world import FILES

from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.sandbox import SandboxError
from paddock.testing.sandboxes import repository_image, sandbox_home, store_of
from paddock.tokens import ChatTemplate, Vocabulary
from paddock.types import JsonObject

SIZE = 3
pytestmark = [pytest.mark.vllm, pytest.mark.sandbox]


class RayRun:
    def __init__(self, told: JsonObject, seen: list[NemoRlCall], refused: list[str]) -> None:
        self.told = told
        self.streamed: list[JsonObject] = sorted(told["streamed"], key=lambda one: one["index"])
        self.seen = seen
        self.refused = refused


@pytest.fixture(scope="module")
def ray_run(real_vllm: RealVllm, vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayRun]:
    folder = tmp_path_factory.mktemp("ray")
    with sandbox_home() as home:
        try:
            repository_image(store_of(home), "calc", FILES)
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield asyncio.run(_play(real_vllm, vllm_python, home, folder))


async def _play(vllm: RealVllm, python: str, home: Path, folder: Path) -> RayRun:
    vocabulary = Vocabulary.load(vllm.model)
    assert vocabulary.chat_template is not None
    template = ChatTemplate(vocabulary.chat_template, vocabulary.special_texts)
    engine = VllmEngine(
        VllmConfig(base_url=vllm.engine_url, model=str(vllm.model), tokenizer=str(vllm.model)), name="policy"
    )
    await engine.start()
    try:
        async with NemoRlChat(engine, vocabulary, template, Sampling(1.0, 1.0), max_model_len=MAX_TOKENS) as chat:
            given = _given(vllm, home, folder, chat.url)
            told = await asyncio.to_thread(drive_actor, python, given)
            return RayRun(told, chat.seen, chat.refused)
    finally:
        await engine.stop()


def _given(vllm: RealVllm, home: Path, folder: Path, url: str) -> JsonObject:
    agent: dict[str, Any] = {
        "resources_server": {"type": "resources_servers", "name": "world"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
        "harness": vllm.harness,
        "agent_max_turns": 4,
        "command_timeout_s": 20,
        "sandbox": {"home": str(home), "runtime": "bubblewrap"},
        "limits": {"memory_mib": 512},
    }
    servers: JsonObject = {
        "world": {"resources_servers": {"tests.training.nemo_rl.world:RepositoryEnvironment": {}}},
        "agent": {"agents": {"swe": agent}},
        "invalid_tool_call_patterns": ["<tool_call>"],
        "effort_levels": None,
    }
    tasks: list[JsonObject] = [{"responses_create_params": {"input": []}, "number": number} for number in (1, 2)]
    wrong = {"responses_create_params": {"input": []}, "number": "none"}
    asked = rows(*tasks, size=SIZE) + rows(wrong, index=99)
    for nth, row in enumerate(asked):
        row["_rowidx"] = nth
        row["responses_create_params"]["max_output_tokens"] = 160
    return actor_input(servers, url=url, model=vllm.model, rows=asked, folder=folder)


def test_every_row_has_its_messages_in_tensors(ray_run: RayRun) -> None:
    assert [one["index"] for one in ray_run.streamed] == list(range(2 * SIZE + 1))
    assert set(ray_run.told["timing"]) >= {"timing/rollout/await_results", "timing/rollout/postprocess_results_pct"}
    for one in ray_run.streamed:
        users, assistants = one["messages"][::2], one["messages"][1::2]
        assert one["first"] == users[0]["token_ids"]
        assert {message["role"] for message in users} == {"user"}
        assert {str(message["types"]) for message in users} == {"{'token_ids': 'torch.int64'}"}
        for message in assistants:
            assert message["types"] == {"token_ids": "torch.int64", "generation_logprobs": "torch.float32"}
            assert (message["role"], message["content"]) == ("assistant", "")
            assert len(message["token_ids"]) == len(message["generation_logprobs"])


def test_what_is_trained_on_is_what_the_engine_saw_and_sampled(ray_run: RayRun) -> None:
    # Members of a group may say the same.
    answers: dict[tuple[tuple[int, ...], tuple[int, ...]], list[list[float]]] = {}
    for seen in ray_run.seen:
        answers.setdefault((tuple(seen.prompt), tuple(seen.sampled)), []).append(seen.log_probs)
    turns = 0
    for one in ray_run.streamed[:-1]:
        prompt: list[int] = []
        for user, assistant in zip(one["messages"][::2], one["messages"][1::2], strict=True):
            prompt += user["token_ids"]
            same = answers[tuple(prompt), tuple(assistant["token_ids"])]
            same.remove(next(one for one in same if assistant["generation_logprobs"] == pytest.approx(one, rel=1e-6)))
            prompt += assistant["token_ids"]
            turns += 1
    assert not any(answers.values()), "each answer of the engine is in one rollout"
    assert turns > 2 * SIZE, "some of several turns"
    assert ray_run.refused == []


def test_members_of_a_group_have_one_first_prompt_and_groups_another(ray_run: RayRun) -> None:
    first = [one["first"] for one in ray_run.streamed]
    assert first[:SIZE] == [first[0]] * SIZE
    assert first[SIZE : 2 * SIZE] == [first[SIZE]] * SIZE
    assert first[0] != first[SIZE]


def test_the_wrong_row_is_masked_and_no_other(ray_run: RayRun) -> None:
    masked = [one["config"].get("mask_reason") for one in ray_run.streamed if one["config"]["mask_sample"]]
    assert masked == ["row"]
    assert (ray_run.streamed[-1]["reward"], ray_run.streamed[-1]["first"]) == (0.0, [0])


def test_items_have_their_ids_as_text(ray_run: RayRun) -> None:
    for one in ray_run.streamed[:-1]:
        carriers = [item for item in one["items"] if "generation_str" in item]
        assert len(carriers) == len(one["messages"]) // 2
        assert all(item["prompt_str"].startswith(before["prompt_str"]) for before, item in pairwise(carriers))


def test_a_killed_actor_is_said_and_takes_its_servers_with_it(ray_run: RayRun) -> None:
    assert ray_run.told["dead"] in ("ActorDiedError", "RayActorError")
    assert ray_run.told["left"] == []
