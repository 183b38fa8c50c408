"""A user that a model plays: what it and the policy see of each other, what ends the talk, whose tokens are whose."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.agents.tools.test_tools_agent import ScriptedTurnsModel, Turn, ended
from tests.rollouts.conftest import completion

from paddock.agents.tools import ToolsAgent
from paddock.agents.tools.config import ToolsAgentConfig
from paddock.errors import ConfigError, InfraError, RequestError
from paddock.examples.shop import ShopServer
from paddock.http import RUN, Call, ModelReply, Peer
from paddock.rollouts import Completion, open_rollouts
from paddock.server import ModelServer, ServerConfig, ToolsServerConfig
from paddock.testing.templates import TEMPLATES
from paddock.testing.transports import over
from paddock.testing.vocabularies import write_model_folder
from paddock.types import JsonObject, Rollout, Row
from paddock.types.responses import call_item, make_response, message_item, reasoning_item

REPOSITORY = Path(__file__).parents[3]
ROWS = [orjson.loads(line) for line in (REPOSITORY / "examples" / "shop.jsonl").read_bytes().splitlines()]
ROW = ROWS[0]
RULES = ROW["responses_create_params"]["input"][0]
KETTLE, MUGS = (request["say"] for request in ROW["requests"])
PART = "Ask for:{% for one in task.requests %} {{ one }}{% endfor %} Then {{ stop_phrase }}"
CANCEL = call_item("cancel_order", '{"number": "A17"}')
MOVE = call_item("change_address", '{"number": "A18", "address": "9 Quay Street"}')
TALK: list[Turn] = [[CANCEL], [message_item("Cancelled.")], [MOVE], [message_item("Moved.")]]


class ScriptedUserModel(ModelServer[ServerConfig]):
    """Answers with one message after the other; an exception is raised."""

    def __init__(self, answers: Sequence[Any], peers: dict[str, Peer]) -> None:
        super().__init__(ServerConfig(), name="user_model", peers=peers)
        self.requests: list[JsonObject] = []
        self.named: list[object] = []
        """What named a rollout in each call."""
        self._answers = answers

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        answer = self._answers[len(self.requests)]
        self.requests.append(body)
        self.named.append(call.path.get("secret") or call.bearer or call.rollout_secret)
        if answer == "hang":
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        items = [message_item(answer)] if isinstance(answer, str) else answer
        return make_response(items, body, model="m", incomplete_reason="max_output_tokens" if answer == "cu" else None)


@asynccontextmanager
async def talking(
    turns: Sequence[Turn], answers: Sequence[Any], **settings: Any
) -> AsyncIterator[tuple[Peer, ScriptedTurnsModel, ScriptedUserModel]]:
    peers: dict[str, Peer] = {}
    user = {
        "model_server": {"type": "models_servers", "name": "user_model"},
        "prompt_template": PART,
        **settings.pop("user", {}),
    }
    places = {
        "resources_server": {"type": "resources_servers", "name": "shop"},
        "model_server": {"type": "models_servers", "name": "scripted_model"},
    }
    config = ToolsAgentConfig.model_validate({**places, "user": user, **settings})
    agent = ToolsAgent(config, name="agent", peers=peers)
    policy, model = ScriptedTurnsModel(turns, peers), ScriptedUserModel(answers, peers)
    async with over("direct", agent, ShopServer(ToolsServerConfig(), name="shop", peers=peers), policy, model) as at:
        yield at["agent"], policy, model


async def talk(
    turns: Sequence[Turn], answers: Sequence[Any], row: JsonObject = ROW, **settings: Any
) -> tuple[Rollout, ScriptedTurnsModel, ScriptedUserModel]:
    async with talking(turns, answers, **settings) as (agent, policy, user):
        return await agent.call(RUN, Row.from_wire(row), Call()), policy, user


async def test_the_policy_and_the_user_see_each_others_words_alone() -> None:
    rollout, policy, user = await talk(
        TALK, [MUGS, "Thanks. ###STOP###"], user={"responses_create_params": {"top_p": 1}}
    )
    assert (rollout.outcome, rollout.reward, ended(rollout)["ended"]) == ("completed", 1.0, "finished")
    assert ended(rollout)["user_messages"] == 1
    part = {"role": "system", "content": f"Ask for: {MUGS} Then ###STOP###"}
    first = [part, {"role": "user", "content": "Cancelled."}]
    assert user.requests == [
        {"top_p": 1, "input": first},
        {"top_p": 1, "input": [*first, {"role": "assistant", "content": MUGS}, {"role": "user", "content": "Moved."}]},
    ]
    assert user.named == [None, None]
    assert policy.requests[2]["input"][-1] == {"type": "message", "role": "user", "content": MUGS}
    for request in policy.requests[:2]:
        assert MUGS not in orjson.dumps(request).decode()
    assert "STOP" not in orjson.dumps(policy.requests).decode()
    assert rollout.response is not None
    assert [item["content"] for item in rollout.response["output"] if item.get("role") == "user"] == [MUGS]


async def test_a_row_without_a_users_message_is_opened_by_the_user() -> None:
    row = {**ROW, "responses_create_params": {"input": [RULES]}}
    rollout, policy, user = await talk(TALK, [KETTLE, MUGS, "###STOP###"], row, user={"greeting": "Yes?"})
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0)
    assert user.requests[0]["input"][1:] == [{"role": "user", "content": "Yes?"}]
    assert policy.requests[0]["input"] == [RULES, {"type": "message", "role": "user", "content": KETTLE}]
    silent, policy, _ = await talk(TALK, ["###STOP###"], row)
    assert (silent.outcome, silent.reward, policy.requests) == ("completed", 0.0, [])


@pytest.mark.parametrize(
    ("settings", "asked", "reward"),
    [({"user": {"max_messages": 1}}, 1, 1.0), ({"max_turns": 2}, 0, 0.0), ({"max_turns": 4}, 1, 1.0)],
)
async def test_a_limit_truncates_the_talk(settings: Any, asked: int, reward: float) -> None:
    rollout, _, user = await talk(TALK, [MUGS, "And one thing more."], **settings)
    assert (rollout.outcome, rollout.reward, ended(rollout)["ended"]) == ("truncated", reward, "turn_limit")
    assert len(user.requests) == asked


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (InfraError("gone", kind="connection"), "connection"),
        (RequestError("too long", kind="context_length_exceeded"), "context_length_exceeded"),
        ("  ", "user_unusable"),
        ("cu", "user_unusable"),
        ([reasoning_item("hm")], "user_unusable"),
        ([call_item("cancel_order", "{}")], "user_unusable"),
        ("hang", "timeout"),
    ],
)
async def test_what_the_users_model_does_not_do_is_no_reward(answer: Any, kind: str) -> None:
    rollout, policy, _ = await talk(TALK, [answer], user={"timeout_s": 0.2})
    assert (rollout.outcome, rollout.reward, len(policy.requests)) == ("infra", None, 2)
    assert rollout.failure is not None
    assert (rollout.failure.kind, rollout.failure.owner) == (kind, "infra")
    assert "the user's model user_model" in rollout.failure.message


async def test_a_part_that_needs_what_is_not_shown_is_refused() -> None:
    with pytest.raises(ConfigError, match="no variable `goal`"):
        await talk(TALK, [], user={"prompt_template": "{{ goal }}"})
    rollout, _, _ = await talk(TALK, [], user={"prompt_template": "{{ task.orders }}"})
    assert rollout.outcome == "row"
    assert rollout.failure is not None
    assert "'orders'; the environment shows: requests" in rollout.failure.message


async def test_a_talk_is_judged_anew_as_it_was() -> None:
    shop = ShopServer(ToolsServerConfig(), name="shop", peers={})
    rollout, _, _ = await talk(TALK, [MUGS, "###STOP###"])
    assert rollout.response is not None
    assert rollout.verdict is not None
    again = await shop.reverify(shop.read_task(rollout.row), rollout.row, rollout.response, rollout.verdict)
    assert again == rollout.verdict


def call_text(item: JsonObject) -> str:
    call = {"name": item["name"], "arguments": orjson.loads(item["arguments"])}
    return f"<tool_call>\n{orjson.dumps(call).decode()}\n</tool_call>"


def test_a_talk_is_one_sample_with_the_policys_tokens_alone(tmp_path: Path) -> None:
    texts = [call_text(CANCEL), "Cancelled.", call_text(MOVE), "Moved."]
    prompts: list[list[int]] = []

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        prompts.append(ids)
        return completion(texts[len(prompts) - 1], 1)

    model = write_model_folder(tmp_path / "model", chat_template=TEMPLATES["chatml"].source)
    settings = {"tokenizer": str(model), "tool_parser": "hermes"}
    with open_rollouts("configs/shop_demo.yaml", engine=engine, engine_settings=settings) as rollouts:
        (member,) = rollouts.run_group(ROW, 1).members
    assert (member.outcome, member.reward) == ("completed", 1.0)
    (entry,) = member.samples
    answers = [completion(text).ids for text in texts]
    for before, answer, after in zip(prompts, answers, prompts[1:], strict=False):
        assert after[: len(before) + len(answer)] == [*before, *answer]
    assert entry.sample.ids == [*prompts[-1], *answers[-1]]
    trained = [number for number, mask in zip(entry.sample.ids, entry.sample.loss_mask, strict=True) if mask]
    assert trained == [number for answer in answers for number in answer]
    # The user's words stand between the second answer and the third, as input.
    between = prompts[2][len(prompts[1]) + len(answers[1]) :]
    words = completion(MUGS).ids[:-1]
    assert any(between[at : at + len(words)] == words for at in range(len(between)))


@pytest.mark.cli
def test_the_example_pays_its_known_good_turns(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "paddock", "eval", "configs/shop_demo.yaml", "--oracle", "--out", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    lines = [orjson.loads(line) for line in (tmp_path / "rollouts.jsonl").read_bytes().splitlines()]
    assert [line["reward"] for line in lines] == [1.0] * len(ROWS)
    said = [line["response"]["harness"]["user_messages"] for line in lines]
    assert sorted(said) == sorted(len(row["requests"]) - 1 for row in ROWS)
