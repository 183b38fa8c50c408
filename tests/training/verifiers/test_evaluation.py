"""Claims about our environments under verifiers' own evaluation command: exact samples, rewards, failures left out."""

import asyncio
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.training.verifiers.conftest import (
    PADDOCK,
    PIVOT,
    PYTHON,
    ROOT,
    ROWS,
    SIZE,
    python_path,
    read_samples,
    taskset_keys,
)
from tests.training.verifiers.token_endpoint import FAILS, TokenEndpoint

from paddock.testing.templates import TEMPLATES
from paddock.testing.upstream import ErrorStatus, ScriptedAnswer, ScriptedUpstream
from paddock.testing.vocabularies import write_model_folder
from paddock.types import JsonObject

pytestmark = [
    pytest.mark.trainer,
    pytest.mark.timeout(600),
    pytest.mark.skipif(PYTHON is None, reason="PADDOCK_VERIFIERS_PYTHON: no environment with verifiers"),
]


async def evaluate(folder: Path, rows: Path, model: str, client: dict[str, str], **keys: Any) -> list[dict[str, Any]]:
    """The traces of the pivot config's rollouts by `vf-eval`; `keys`: more of `env.taskset`."""
    settings = {
        "model": model,
        "num_rollouts": SIZE,
        "push": False,
        "output_dir": str(folder / "outputs"),
        "client": client,
        "sampling": {"temperature": 0.7, "max_tokens": 64},
        "env": {"taskset": taskset_keys(folder, rows, **keys)},
    }
    (folder / "run.json").write_text(json.dumps(settings))
    assert PYTHON is not None
    command = Path(PYTHON).with_name("vf-eval")
    process = await asyncio.create_subprocess_exec(
        str(command), "@", str(folder / "run.json"), "--no-rich", cwd=folder, env=python_path(),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]
    return read_traces(folder)


def read_traces(folder: Path) -> list[dict[str, Any]]:
    """What `vf-eval` wrote."""
    (written,) = folder.glob("outputs/*/traces.jsonl")
    return [trace for episode in read_lines(written) for trace in episode["traces"]]


def read_lines(path: Path) -> list[JsonObject]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


async def test_a_train_client_gets_the_samples_of_paddock_and_failed_rollouts_are_errors(
    tmp_path: Path, rows: Path
) -> None:
    model = write_model_folder(tmp_path / "model", chat_template=TEMPLATES["chatml"].source)
    calls = Counter[str]()

    def answer(prompt: str) -> str:
        calls[prompt] += 1
        return FAILS if calls[prompt] == SIZE else f"I would look at file {calls[prompt]} first."

    async with TokenEndpoint(answer) as endpoint:
        client = {"type": "train", "base_url": endpoint.url}
        traces = await evaluate(tmp_path, rows, str(model), client, engine={"tool_parser": "hermes"})
    assert len(traces) == ROWS * SIZE
    failed = [trace for trace in traces if not trace["ok"]]
    assert len(failed) == ROWS
    for trace in failed:
        assert trace["rewards"] == {"reward": None}
        assert trace["nodes"] == []
        assert "Rollout_infra" in [error["type"] for error in trace["errors"]]
    given = [_joined(trace) for trace in traces if trace["ok"]]
    ours = [(line["ids"], line["loss_mask"], line["log_probs"], line["reward"]) for line in read_samples(tmp_path)]
    assert len(ours) == ROWS * (SIZE - 1)
    assert sorted(given) == sorted(ours)
    assert all(body["sampling_params"]["temperature"] == 0.7 for body in endpoint.bodies)
    assert all(body["sampling_params"]["max_tokens"] == 64 for body in endpoint.bodies)
    assert len(endpoint.sessions - {None}) == ROWS * SIZE


async def test_an_eval_client_gives_the_rewards_of_paddock_eval(tmp_path: Path, rows: Path) -> None:
    given = read_lines(rows)
    expected = [row["expected_action"] for row in given]
    texts = [orjson.dumps(row["responses_create_params"]["input"]) for row in given]

    def reply(body: JsonObject, nth: int) -> ScriptedAnswer:
        last = orjson.dumps(body["messages"][-1]["content"])[1:-1]
        number = max(index for index, text in enumerate(texts) if last in text)
        action = expected[number]
        if number % 2 or action.get("type") != "function_call":
            return ScriptedAnswer("I would look at the file first.")
        return ScriptedAnswer(calls=((action["name"], action["arguments"]),))

    def faults(nth: int) -> ErrorStatus | None:
        return ErrorStatus(400) if nth == 3 else None

    async with ScriptedUpstream(reply, faults=faults) as upstream:
        client = {"type": "eval", "base_url": upstream.url}
        traces = await evaluate(tmp_path, rows, "scripted", client)
    async with ScriptedUpstream(reply) as upstream:
        configs = [PIVOT / "configs/pivot.yaml", ROOT / "models_servers/openai/configs/openai.yaml"]
        command = [
            *(PADDOCK, "eval", *configs, "--rows", rows, "--out", tmp_path / "ours"),
            *(f"policy_base_url={upstream.url}", "policy_model_name=scripted", "policy_api_key=none"),
        ]
        await asyncio.to_thread(subprocess.check_output, [str(word) for word in command])
    reward_of = {line["uuid"]: line["reward"] for line in read_lines(tmp_path / "ours/rollouts.jsonl")}
    assert len({*reward_of.values()}) > 1
    rewarded = [trace for trace in traces if trace["ok"]]
    assert len(rewarded) == ROWS * SIZE - 1
    for trace in rewarded:
        assert trace["rewards"]["reward"]["score"] == reward_of[trace["task"]["data"]["row"]["uuid"]]
        assert [node["message"]["role"] for node in trace["nodes"]] == ["user", "assistant"]
        assert not any(node["token_ids"] for node in trace["nodes"])


def _joined(trace: dict[str, Any]) -> tuple[list[int], list[int], list[float], float]:
    """The one branch of a trace, joined by its nodes' fields as verifiers joins them."""
    nodes = trace["nodes"]
    assert [node.get("parent") for node in nodes] == [None, *range(len(nodes) - 1)]
    ids = [token for node in nodes for token in node["token_ids"]]
    mask = [int(flag) for node in nodes for flag in node["mask"]]
    values = iter([value for node in nodes for value in node["logprobs"]])
    log_probs = [next(values) if flag else 0.0 for flag in mask]
    assert next(values, None) is None
    return ids, mask, log_probs, trace["rewards"]["reward"]["score"]
