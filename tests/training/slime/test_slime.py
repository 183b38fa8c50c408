"""Claims about the slime adapter, in slime's own rollout phase: its samples are ours, and failures teach nothing.

slime is in no package index: `PADDOCK_SLIME` names the folder of a checkout, and `PADDOCK_VLLM_PYTHON` an interpreter
with torch and transformers, and with pylatexenc, which slime's graders of mathematics ask for.
"""

import os
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import yaml

from paddock.errors import ConfigError
from paddock.server.exact.functions import Completion
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import write_model_folder
from paddock.training.slime.engine import read_completion, sampling_params
from paddock.training.slime.rewards import post_process_rewards
from paddock.training.slime.samples import MASK
from paddock.training.slime.settings import POST_PROCESS, read_settings
from paddock.types import JsonObject

ROOT = Path(__file__).parents[3]
SCRIPTED = "paddock.conformance.scripted"
SLIME, PYTHON = os.environ.get("PADDOCK_SLIME"), os.environ.get("PADDOCK_VLLM_PYTHON")
with_slime = pytest.mark.skipif(
    SLIME is None or PYTHON is None, reason="no slime here: PADDOCK_SLIME and PADDOCK_VLLM_PYTHON name it"
)


def environment() -> JsonObject:
    refers = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
    }
    return {
        "environment": {"resources_servers": {f"{SCRIPTED}:ScriptedEnvironment": {}}},
        "agent": {"agents": {"single_step": refers}},
        "policy_model": {"models_servers": {"function": {"function": "json:loads", "tokenizer": "none"}}},
        "eval": {"max_attempts": 1},
    }


LONG = "Yes, or no? " * 40


def row(answer: str = "yes", question: str = "Yes or no?", **task: Any) -> JsonObject:
    request = {"input": [{"role": "user", "content": question}]}
    return {"responses_create_params": request, "answer": answer, **task}


def run(folder: Path, case: str, rows: list[JsonObject]) -> JsonObject:
    """What slime would train on, after one phase."""
    write_model_folder(folder / "model", chat_template=TEMPLATES["chatml"].source)
    config = folder / "model" / "tokenizer_config.json"
    known = orjson.loads(config.read_bytes())
    config.write_bytes(orjson.dumps({**known, "tokenizer_class": "PreTrainedTokenizerFast"}))
    (folder / "environment.yaml").write_text(yaml.safe_dump(environment()))
    options = {"sample_mode": "branch", "out": str(folder / "runs")}
    settings = {"paddock_config": str(folder / "environment.yaml"), "paddock_rollouts": options}
    (folder / "custom.json").write_bytes(orjson.dumps(settings))
    (folder / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    made = [sys.executable, "-m", "paddock.training.slime", str(folder / "rows.jsonl"), str(folder / "data.jsonl")]
    subprocess.run(made, check=True)
    found: JsonObject = orjson.loads(drive(folder, case))
    return found


def drive(folder: Path, case: str) -> bytes:
    """The last line that slime's process printed."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(SLIME), os.environ.get("PADDOCK_SLIME_PATH", "")])
    done = subprocess.run(
        [str(PYTHON), str(Path(__file__).parent / "driver.py"), str(folder), case],
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return done.stdout.splitlines()[-1]


@with_slime
@pytest.mark.slow
def test_slime_is_given_the_samples_that_were_written(tmp_path: Path) -> None:
    found = run(tmp_path, "train", [row(), row("no")])
    (journal,) = (tmp_path / "runs").iterdir()
    command = [sys.executable, "-m", "paddock", "samples", str(journal)]
    lines = [
        orjson.loads(line) for line in subprocess.run(command, check=True, capture_output=True).stdout.splitlines()
    ]
    ours = {(line["_ng_task_index"], line["_ng_rollout_index"]): line for line in lines}
    assert len(found["samples"]) == len(lines) == 8
    for sample in found["samples"]:
        line = ours[sample["group_index"], sample["index"] % 4]
        start = len(line["ids"]) - sample["response_length"]
        assert sample["tokens"] == line["ids"]
        assert [0] * start + sample["loss_mask"] == line["loss_mask"]
        assert sample["rollout_log_probs"] == line["log_probs"][start:]
        assert (sample["reward"], sample["weight_versions"]) == (line["reward"], ["3"])
        assert (sample["status"], sample["rollout_id"]) == ("completed", sample["index"])
    assert all(call["sampling_params"]["temperature"] == 0.7 for call in found["calls"])
    assert all(call["sampling_params"]["max_new_tokens"] == 40 for call in found["calls"])


@with_slime
@pytest.mark.slow
def test_a_failed_group_has_no_token_to_train_on_and_no_advantage(tmp_path: Path) -> None:
    found = run(tmp_path, "train", [row(), row(grade="infra")])
    failed = [sample for sample in found["samples"] if MASK in sample["metadata"]]
    assert [sample["group_index"] for sample in failed] == [1] * 4
    assert all(sample["remove_sample"] and sum(sample["loss_mask"]) == 0 for sample in failed)
    assert found["rewards"][4:] == [0.0] * 4
    assert sum(found["rewards"][:4]) == pytest.approx(0)


@with_slime
@pytest.mark.slow
def test_groups_that_slime_ends_are_ended(tmp_path: Path) -> None:
    found = run(tmp_path, "abort", [row(), row(), row(question=LONG), row(question=LONG)])
    assert [sample["status"] for sample in found["samples"]] == ["completed"] * 8
    assert 8 < len(found["calls"]) <= 16


@with_slime
@pytest.mark.slow
def test_a_fifth_of_the_members_fails_and_enters_neither_baseline_nor_loss(tmp_path: Path) -> None:
    found = run(tmp_path, "fifth", [row(), row("no")])
    failed = [nth for nth, one in enumerate(found["samples"]) if MASK in one["metadata"]]
    assert (len(found["samples"]), len(failed)) == (10, 2)
    batch = found["train_data"]
    for group in (range(5), range(5, 10)):
        live = [nth for nth in group if nth not in failed]
        rewards = [found["samples"][nth]["reward"] for nth in live]
        spread = stdev(rewards) + 1e-6
        assert [batch["rewards"][nth] for nth in live] == pytest.approx(
            [(r - fmean(rewards)) / spread for r in rewards]
        )
    assert [batch["rollout_mask_sums"][nth] for nth in failed] == [0, 0]
    assert all(sum(batch["loss_masks"][nth]) == 0 for nth in failed)
    assert all(sum(mask) > 0 for nth, mask in enumerate(batch["loss_masks"]) if nth not in failed)


@with_slime
@pytest.mark.slow
def test_a_trainer_that_stops_reading_holds_rollouts_back(tmp_path: Path) -> None:
    """slime's worker holds two groups of four in flight, and as many more that were not read."""
    found = run(tmp_path, "unread", [row()] * 4)
    stopped, later, after_reading = found["calls"]
    assert 8 <= stopped <= 12
    assert later == stopped
    assert stopped < after_reading <= stopped + 12
    assert 2 <= found["waiting"] <= 3


def sample(group: int, index: int, reward: float, *, failed: bool = False, siblings: int = 1) -> list[Any]:
    metadata = {MASK: "infra"} if failed else {}
    one = SimpleNamespace(
        group_index=group,
        index=index,
        rollout_id=index,
        reward=0.0 if failed else reward,
        metadata=metadata,
        get_reward_value=lambda _args: 0.0 if failed else reward,
    )
    return [one] * siblings


ARGUMENTS = SimpleNamespace(
    advantage_estimator="grpo",
    rewards_normalization=True,
    grpo_std_normalization=True,
    n_samples_per_prompt=4,
    rollout_batch_size=2,
    reward_key=None,
)


def test_a_failed_rollout_moves_no_other() -> None:
    without = [one for nth, reward in enumerate((1.0, 0.0, 1.0)) for one in sample(0, nth, reward)]
    _, expected = post_process_rewards(ARGUMENTS, without)
    raw, found = post_process_rewards(ARGUMENTS, [*without, *sample(0, 3, 0, failed=True)])
    assert found == [*expected, 0.0]
    assert raw[3] == pytest.approx(2 / 3)


def test_a_rollout_of_several_samples_counts_once() -> None:
    single = [*sample(0, 0, 1.0), *sample(0, 1, 0.0), *sample(0, 2, 0.0)]
    several = [*sample(0, 0, 1.0, siblings=5), *sample(0, 1, 0.0), *sample(0, 2, 0.0)]
    _, expected = post_process_rewards(ARGUMENTS, single)
    _, found = post_process_rewards(ARGUMENTS, several)
    assert found == [*[expected[0]] * 5, *expected[1:]]


@with_slime
@pytest.mark.slow
def test_without_failures_rewards_are_slimes_own(tmp_path: Path) -> None:
    rewards = [1.0, 0.0, 0.25, 1.0, 0.0, 0.0, 1.0, 0.5]
    estimators = ("grpo", "gspo", "reinforce_plus_plus_baseline", "ppo")
    cases = [{"estimator": name, "std": std, "rewards": rewards} for name in estimators for std in (True, False)]
    (tmp_path / "cases.json").write_bytes(orjson.dumps(cases))
    found = orjson.loads(drive(tmp_path, "rewards"))
    assert len(found) == len(cases)
    for theirs, ours in found:
        for mine, other in zip(ours, theirs, strict=True):
            assert mine == pytest.approx(other, abs=1e-6)


def test_sglang_gets_bounds_and_stops_under_its_own_names() -> None:
    args = SimpleNamespace(rollout_max_response_len=40, rollout_stop_token_ids=[7])
    found = sampling_params(args, {"max_tokens": 90, "temperature": 0.5, "seed": 3, "stop": ["a"], "top_k": None})
    assert found["max_new_tokens"] == 40
    assert (found["temperature"], found["sampling_seed"], found["stop"]) == (0.5, 3, ["a"])
    assert found["stop_token_ids"] == [7]
    assert "top_k" not in found
    assert sampling_params(args, {"max_tokens": 9})["max_new_tokens"] == 9


def test_an_aborted_call_keeps_what_was_sampled() -> None:
    meta = {"finish_reason": {"type": "abort"}, "output_token_logprobs": [[-1.0, 5, None]], "weight_version": "2"}
    found = read_completion({"meta_info": meta})
    assert found == Completion([5], [-1.0], "abort", "2", [])


def test_a_call_that_weights_changed_under_has_a_span_for_each() -> None:
    versions = [{"version": "2", "start": 0, "end": 1}, {"version": "3", "start": 1, "end": 2}]
    meta = {
        "finish_reason": {"type": "stop"},
        "output_token_logprobs": [[-1.0, 5, None], [-2.0, 6, None]],
        "weight_version": "3",
        "weight_versions": versions,
    }
    found = read_completion({"meta_info": meta})
    assert [span.model_dump() for span in found.weight_versions] == versions


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "paddock_config: missing"),
        ({"paddock_config": "a.yaml", "custom_reward_post_process_path": None}, "baseline"),
        ({"paddock_config": "a.yaml", "paddock_confg": 1}, "confg"),
        ({"paddock_config": "a.yaml", "partial_rollout": True}, "sample_mode"),
    ],
)
def test_wrong_settings_are_named(given: JsonObject, says: str) -> None:
    args = SimpleNamespace(**{"custom_reward_post_process_path": POST_PROCESS, **given})
    with pytest.raises(ConfigError, match=says):
        read_settings(args)
