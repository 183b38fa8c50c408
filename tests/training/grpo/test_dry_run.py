"""`paddock train --dry-run` and what the command refuses: the plan's arithmetic, and nothing started."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from paddock.cli import main
from paddock.training.grpo.preflight import DRIVER, PACKAGES

SERVERS = {
    "pivot": {"resources_servers": {"pivot": {"comparator": "compat"}}},
    "agent": {
        "agents": {
            "single_step": {
                "resources_server": {"type": "resources_servers", "name": "pivot"},
                "model_server": {"type": "models_servers", "name": "policy_model"},
            }
        }
    },
}
RUN: dict[str, Any] = {
    "grpo": {"num_prompts_per_step": 3, "num_generations_per_prompt": 4, "max_num_epochs": 6, "max_num_steps": 50},
    "policy": {
        "model_name": "/models/tiny",
        "max_total_sequence_length": 100,
        "train_global_batch_size": 6,
        "torch_cfg": {"device": "cpu", "processes": 2},
        "generation": {"vllm": {"api_key": "geheim", "launch": {"device": "cpu", "replicas": 2}}},
    },
    "data": {"train": {"data_path": "resources_servers/pivot/data/example.jsonl"}},
    "checkpointing": {"save_consolidated": True},
    "env": {"nemo_gym": SERVERS},
}

HAS_ALL = all(find_spec(name) is not None for name in PACKAGES)
PLANNED = 0 if HAS_ALL else 2
"""How a plan that is made ends in this interpreter."""


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(RUN))
    return path


def test_the_plan_has_the_arithmetic_the_devices_and_the_inert_keys(
    run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(run_file), "--dry-run", "grpo.val_at_end=false"]) == PLANNED
    plan = " ".join(capsys.readouterr().out.split())
    for said in (
        "run mine, into runs/mine",
        "device cpu, 2 processes share the weights (FSDP)",
        "agent: agents single_step",
        "vLLM, 2 replicas, device cpu, bfloat16, at most 100 tokens a sequence; weights come by gloo",
        "3 prompts x 4 generations = 12 rollouts, at most 1,200 tokens",
        "2 steps of 6 rows",
        "at most 6; weights are sent when running rollouts have ended",
        "epochs are",
        "policy.train_global_batch_size = 6",
        "weights are in the form of Hugging Face: checkpointing.save_consolidated",
    ):
        assert said in plan
    assert "geheim" not in plan
    assert not (run_file.parent / "runs").exists()


def test_weights_of_agents_are_planned_or_refused(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"responses_create_params": {"input": "x"}, "agent_ref": {"name": name}, "expected_action": {"type": "message"}}
        for name in ("agent", "agent", "other", "agent")
    ]
    Path("mixed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    servers = {**SERVERS, "other": SERVERS["agent"]}
    run_file.write_text(yaml.safe_dump({**RUN, "env": {"nemo_gym": servers}}))

    def plan(weights: str) -> tuple[int, str]:
        code = main(
            ["train", str(run_file), "--dry-run", "data.train.data_path=mixed.jsonl", f"data.train.weights={weights}"]
        )
        output = capsys.readouterr()
        return code, " ".join((output.out + output.err).split())

    code, text = plan("{agent: 1, other: 3}")
    assert code == PLANNED
    assert "of the prompts: agent 25.0% (3 rows), other 75.0% (1 row)" in text
    code, text = plan("{agent: 1}")
    assert (code, "there is no weight for 'other'; the rows are run by agent (3), other (1)" in text) == (2, True)
    code, text = plan("{agent: 1, other: 1, pivot_agent: 1}")
    assert (code, "no row is run by 'pivot_agent'" in text) == (2, True)
    assert plan("{agent: 1, other: 0}")[0] == 2


def test_a_curriculum_is_planned(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", str(run_file), "--dry-run", "paddock.curriculum.easy_weight=0.1"])
    plan = " ".join(capsys.readouterr().out.split())
    assert "easy rows come in 10% of the rounds, hard ones in 100%" in plan
    main(["train", str(run_file), "--dry-run"])
    assert "easy rows" not in capsys.readouterr().out


def test_rows_that_are_held_out_are_counted_apart(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_file.parent / "rows.jsonl").write_text("{}\n" * 12)
    overrides = ["data.train.data_path=rows.jsonl", "data.train.split_validation_size=0.2", "grpo.val_period=2"]
    main(["train", str(run_file), "--dry-run", *overrides])
    plan = " ".join(capsys.readouterr().out.split())
    assert "rows.jsonl: 9, " in plan
    assert "validation 3 rows of that file, not trained on, 1 rollout each, every 2 steps" in plan


@pytest.mark.parametrize(("budget_s", "is_refused"), [(1200, True), (1800, True), (1801, False)])
def test_a_budget_that_ends_rollouts_before_their_verdict_is_refused(
    run_file: Path, capsys: pytest.CaptureFixture[str], budget_s: int, *, is_refused: bool
) -> None:
    tree = {**RUN, "env": {"nemo_gym": {"config_paths": ["agents/swe/configs/swe_agent.yaml"]}}}
    run_file.write_text(yaml.safe_dump(tree))
    main(["train", str(run_file), "--dry-run", f"paddock.groups.member_timeout_s={budget_s}"])
    error = capsys.readouterr().err
    assert (f"({budget_s}) has to be above agent_timeout_s (1800) of swe_agent" in error) == is_refused


def test_an_on_policy_run_is_named_so(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(run_file), "--dry-run", "grpo.async_grpo.enabled=false"]) == PLANNED
    assert "each step trains on what its own weights sampled" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grpo.num_prompts=3"], "nearest: `grpo.num_prompts_per_step`"),
        (["--strict"], "checkpointing.save_consolidated"),
        (["policy.generation.vllm.launch.replica=3"], "replica"),
    ],
)
def test_a_mistake_is_said_before_anything_starts(
    run_file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["train", str(run_file), "--dry-run", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_what_the_machine_lacks_is_told_and_not_refused(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = {"nemo_gym": {**SERVERS, "judged": {"resources_servers": {"external": {"base_url": "${oc.env:JUDGED_URL}"}}}}}
    tree = {**RUN, "env": env, "policy": {**RUN["policy"], "model_name": "${oc.env:MODEL_FOLDER}"}}
    run_file.write_text(yaml.safe_dump(tree))
    changes = ["data.train.data_path=missing.jsonl", "cluster.num_nodes=2"]
    assert main(["train", str(run_file), "--dry-run", *changes]) == 0, "packages are those of who runs it"
    plan = capsys.readouterr().out
    assert "policy          $MODEL_FOLDER" in plan
    assert "judged: resources_servers external, elsewhere: ${oc.env:JUDGED_URL}" in plan
    missing = plan[plan.index("missing before a start (4)") :]
    for said in (
        "variable MODEL_FOLDER, read by `policy.model_name`",
        "data.train.data_path: no file missing.jsonl",
        "`judged.resources_servers.external.base_url` (`${oc.env:JUDGED_URL}`): environment variable JUDGED_URL is not",
        "cluster.num_nodes is 2, and without cluster.address a run has this machine alone",
    ):
        assert said in missing


def test_a_plan_says_which_ranks_of_a_replica_over_nodes_each_has(
    run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = ["policy.torch_cfg.device=cuda", "policy.generation.vllm.launch.device=gpu", "cluster.gpus_per_node=2"]
    engines = ["replicas=1", "gpus_per_replica=4", "pipeline_parallel_size=2"]
    changes = [*devices, *(f"+policy.generation.vllm.launch.{text}" for text in engines), "+cluster.address=auto"]
    assert main(["train", str(run_file), "--dry-run", *changes, "cluster.num_nodes=3"]) == PLANNED
    plan = capsys.readouterr().out
    assert "vLLM, 1 replica of 4 GPUs in 2 stages, device gpu" in plan
    for line in (
        "node 1: policy-0, policy-1, rollouts; 2 of 2 GPUs",
        "node 2: engines, ranks 0 to 1 of the 4 of engines; 2 of 2 GPUs",
        "node 3: ranks 2 to 3 of the 4 of engines; 2 of 2 GPUs",
    ):
        assert line in plan
    assert main(["train", str(run_file), "--dry-run", *changes, "cluster.num_nodes=2"]) == PLANNED
    lacking = "a replica of engines, stage (2 of 2) needs 2 GPUs on one node; GPUs that are left: node 1 0, node 2 0"
    assert lacking in capsys.readouterr().out


def test_without_gpus_each_stage_of_a_replica_is_on_a_node_of_its_own(
    run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [f"+policy.generation.vllm.launch.{text}" for text in ("replicas=1", "pipeline_parallel_size=2")]
    cluster = ["+cluster.address=auto", "cluster.num_nodes=4"]
    assert main(["train", str(run_file), "--dry-run", *changes, *cluster]) == PLANNED
    plan = capsys.readouterr().out
    for line in ("node 3: engines, rank 0 of the 2 of engines", "node 4: rank 1 of the 2 of engines"):
        assert line in plan


def test_a_plan_of_several_nodes_says_what_each_runs(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    devices = ["policy.torch_cfg.device=cuda", "policy.generation.vllm.launch.device=gpu", "cluster.gpus_per_node=2"]
    cluster = ["cluster.num_nodes=4", "+cluster.address=auto", "+cluster.labels.policy=role=policy"]
    cluster += ["+cluster.rollout_workers=2"]
    assert main(["train", str(run_file), "--dry-run", *devices, *cluster]) == PLANNED
    plan = capsys.readouterr().out
    assert "placement       4 nodes, by arithmetic" in plan
    assert "rollout worker  2 processes, each with these servers:" in plan
    for line in (
        "node 1: policy-0, policy-1; 2 of 2 GPUs",
        "node 2: engines; 2 of 2 GPUs",
        "node 3: rollouts-0; 0 of 2 GPUs",
        "node 4: rollouts-1; 0 of 2 GPUs",
    ):
        assert line in plan


def test_a_run_on_several_machines_is_refused(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(run_file), "cluster.num_nodes=2"]) == 2
    assert "cluster.num_nodes is 2" in capsys.readouterr().err


def test_a_run_says_which_variable_it_lacks(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(run_file), "policy.model_name=${oc.env:MODEL_FOLDER}"]) == 2
    assert "environment variable MODEL_FOLDER is not set" in capsys.readouterr().err


def test_missing_packages_are_named_with_where_they_are(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if HAS_ALL:
        pytest.skip("this interpreter has all that training needs")
    assert main(["train", str(run_file), "--dry-run"]) == 2
    planned = capsys.readouterr()
    assert "missing before a start" in planned.out
    assert main(["train", str(run_file)]) == 2
    told = capsys.readouterr().err
    assert planned.err.strip() in told, "a plan ends as a start does"
    for name in PACKAGES:
        assert (f"package {name}, in " in planned.out) is (find_spec(name) is None)
    assert "says nothing here" in told
    assert "paddock[train]" in told
    assert "scripts/setup_vllm.sh" in told


def test_the_layout_of_a_policy_on_megatron_core_is_told(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    megatron = {
        "enabled": True,
        "processes": 32,
        "tensor_model_parallel_size": 2,
        "pipeline_model_parallel_size": 4,
        "sequence_parallel": True,
        "optimizer": {"lr": 3e-6, "min_lr": 3e-6},
        "scheduler": {"lr_warmup_iters": 10, "lr_warmup_init": 3e-7},
    }
    replay = {"router_replay": {"enabled": True}}
    policy = {**RUN["policy"], "torch_cfg": {"device": "cpu"}, "megatron_cfg": megatron, **replay}
    run_file.write_text(yaml.safe_dump({**RUN, "policy": policy}))
    assert main(["train", str(run_file), "--dry-run"]) == PLANNED
    plan = " ".join(capsys.readouterr().out.split())
    assert "on Megatron-core, 32 processes: tensor 2 x pipeline 4 x data 4, 1 threads each" in plan
    assert "experts replayed (R3): the engine's, in each pass" in plan
    assert "Adam, learning rate 3e-06, from 3e-07 in 10 steps" in plan


def test_gpus_that_the_machine_does_not_have_are_told(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["policy.torch_cfg.device=cuda", "policy.generation.vllm.launch.device=gpu", "cluster.gpus_per_node=3"]
    assert main(["train", str(run_file), "--dry-run", *changes]) == PLANNED
    assert "engines (2 of 2) needs 1 GPUs on one node; GPUs that are left: node 1 0" in capsys.readouterr().out
    assert main(["train", str(run_file), "--dry-run", *changes, "cluster.gpus_per_node=4"]) == PLANNED
    assert "node 1: policy-0, policy-1, engines, rollouts; 4 of 4 GPUs" in capsys.readouterr().out


def test_the_transfer_is_that_of_the_devices_which_the_recipe_asks_for(
    run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    auto = ["policy.torch_cfg.device=auto", "policy.generation.vllm.launch.device=auto", "cluster.gpus_per_node=8"]
    assert main(["train", str(run_file), "--dry-run", *auto]) == PLANNED
    plan = capsys.readouterr().out
    assert "weights come by paddock_nccl" in plan
    assert ("GPUs: cluster.gpus_per_node is 8, and this machine has no NVIDIA GPUs" in plan) is not DRIVER.exists()
    assert main(["train", str(run_file), "--dry-run", *auto[1:], "policy.torch_cfg.device=cpu"]) == PLANNED
    assert "weights come by gloo" in capsys.readouterr().out
    assert main(["train", str(run_file), "--dry-run", "policy.generation.vllm.launch.weight_transfer=nccl"]) == 2
    assert "leave it out, or set paddock_nccl" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("target_step", "target_step: each group has its step from its start, which waits for it"),
        ("accept_late", "accept_late: steps wait for no group; one that is older is trained on all the same"),
        ("cancel", "cancel: one begun with weights v that still runs after step v + 3 is cancelled"),
    ],
)
def test_what_an_age_means_is_told(run_file: Path, capsys: pytest.CaptureFixture[str], policy: str, said: str) -> None:
    age = ["grpo.async_grpo.max_trajectory_age_steps=3", f"paddock.groups.age_policy={policy}"]
    assert main(["train", str(run_file), "--dry-run", *age]) == PLANNED
    assert said in capsys.readouterr().out


def test_engines_whose_variables_are_not_set_are_planned_too(
    run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["train", str(run_file), "--dry-run", "policy.generation.vllm.api_key=${oc.env:ENGINES_KEY}"]) == PLANNED
    )
    plan = capsys.readouterr().out
    assert "engines         vLLM, as variables say that are not set" in plan
    assert "environment variable ENGINES_KEY is not set" in plan
