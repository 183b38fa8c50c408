"""Claims about native harnesses over NeMo-RL's chat server: what is exported is contiguous, and NeMo-RL takes it.

Two rollouts of one row at once, each in a real sandbox, whose scripted model spells its calls as no template would.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from tests.support.nemo_rl import Fault, NemoRlChat, Sampling

from paddock.agents.swe import SweAgent
from paddock.agents.swe.config import SweAgentConfig
from paddock.http import RUN, Call
from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.sandbox import SandboxError, SandboxLimits, SandboxSettings
from paddock.server import ResourcesServer, ServerConfig
from paddock.testing import over
from paddock.testing.engines import ScriptedEngine
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate
from paddock.tokens.export import inline
from paddock.training.nemo_rl.checks import check_results
from paddock.types import JsonObject, Rollout, Row, Session, Stamp, Verdict

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
VOCABULARY = small_vocabulary()
FIX = "sed -i 's/a - b/a + b/' calc.py"
SHELLS: dict[str, Callable[[str], tuple[str, JsonObject]]] = {
    "codeact": lambda line: ("execute_bash", {"command": line, "security_risk": "LOW"}),
    "codex": lambda line: ("exec_command", {"cmd": line}),
    "opencode": lambda line: ("bash", {"command": line, "description": "Do it"}),
}
TURNS = 4


class FixTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FixEnvironment(ResourcesServer[ServerConfig, FixTask]):
    """Pays for the fix."""

    task_type = FixTask

    async def seed_session(self, task: FixTask, row: Row) -> Session:
        visible = {"instance_id": "calc-1", "problem_statement": "add(1, 2) gives -1."}
        return Session(image="calc", workdir=WORKDIR, visible=visible)

    async def verify(self, task: FixTask, row: Row, response: JsonObject) -> Verdict:
        return Verdict(reward=float("+    return a + b" in response["model_patch"]), reason="resolved")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with sandbox_home() as made:
        try:
            repository_image(store_of(made), "calc", {"calc.py": "def add(a, b):\n    return a - b\n"})
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        yield made


def answering(harness: str) -> Callable[[list[int]], str]:
    """Look, fix, look again, end."""

    def answer(prompt: list[int]) -> str:
        done = VOCABULARY.decode(prompt).count("<|im_start|>assistant\n") - 1
        if done == TURNS - 1:
            finish = '<tool_call>{"name":  "finish", "arguments": {"message":  "Done."}}</tool_call>'
            return finish if harness == "codeact" else "Done."
        name, arguments = SHELLS[harness](["ls", FIX, "cat calc.py"][done])
        said = json.dumps({"name": name, "arguments": arguments}, separators=(" ,", ":  "))
        return f"<think>\nStep {done}.\n</think>\n\nI go on.<tool_call>{said}</tool_call>"

    return answer


async def play(harness: str, home: Path, folder: Path, fault: Callable[[int], Fault | None]) -> list[Rollout]:
    engine = ScriptedEngine(VOCABULARY, answering(harness), chunk_ids=512)
    template = ChatTemplate(TEMPLATES["sorted_arguments"].source, VOCABULARY.special_texts)
    spliced: JsonObject = {"engine": "spliced", "request_token_ids": True, "token_protocol": "nemo_rl"}
    peers: dict[str, Any] = {}
    config = SweAgentConfig(
        resources_server={"type": "resources_servers", "name": "world"},
        model_server={"type": "models_servers", "name": "policy"},
        harness=harness,
        responses_create_params={"temperature": 1.0, "top_p": 0.95},
        sandbox=SandboxSettings(home=home, runtime="bubblewrap"),
        limits=SandboxLimits(memory_mib=512),
    )
    async with NemoRlChat(
        engine, VOCABULARY, template, Sampling(1.0, 0.95), max_model_len=1 << 20, fault=fault
    ) as chat:
        given = {"base_url": chat.url, "model": "policy", "turn_store": {"folder": folder}, **spliced}
        servers = (
            FixEnvironment(ServerConfig(), name="world", peers=peers),
            OpenAIServer(OpenAIConfig.model_validate(given), name="policy", peers=peers),
            SweAgent(config, name="agent", peers=peers),
        )
        async with over("direct", *servers) as found:
            stamps = [Stamp(run_id="r", group_id=1, group_size=2, member=nth, attempt=0) for nth in range(2)]
            rows = [Row(responses_create_params={"input": []}, stamp=stamp) for stamp in stamps]
            return list(await asyncio.gather(*(found["agent"].call(RUN, row, Call()) for row in rows)))


@pytest.mark.parametrize("harness", SHELLS)
async def test_what_a_native_harness_exports_is_taken(harness: str, home: Path, tmp_path: Path) -> None:
    rollouts = await play(harness, home, tmp_path, lambda _: None)
    assert [(rollout.outcome, rollout.reward, len(rollout.turns)) for rollout in rollouts] == [
        ("completed", 1.0, TURNS)
    ] * 2
    results = [inline(rollout) for rollout in rollouts]
    assert [str(finding) for finding in check_results(results)] == []
    for result in results:
        prompts = [item["prompt_token_ids"] for item in result["response"]["output"] if "prompt_token_ids" in item]
        assert len(prompts) == TURNS
        assert not result["instance_config"]["mask_sample"]
        text = VOCABULARY.decode(prompts[-1])
        assert text.count("</think>") == text.count('{"name":  "') == TURNS - 1, "the past is as it was sampled"


async def test_a_rollout_with_a_broken_splice_is_masked_and_its_sibling_is_not(home: Path, tmp_path: Path) -> None:
    rollouts = await play("codex", home, tmp_path, lambda nth: "broken_splice" if nth == 4 else None)
    results = [inline(rollout) for rollout in rollouts]
    assert [rollout.outcome for rollout in rollouts] == ["completed"] * 2
    assert sorted(result["broken_splices"] for result in results) == [0, 1]
    for result in results:
        mask = {"mask_sample": bool(result["broken_splices"])}
        assert result["instance_config"].items() >= mask.items()
        if result["broken_splices"]:
            assert result["instance_config"]["mask_reason"] == "splice_broken"
