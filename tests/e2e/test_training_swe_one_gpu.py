"""`configs/train_one_gpu_swe.yaml` as it is, but for a CPU and a row whose repository is made here.

Policy and vLLM take turns, and adapters learn from rollouts of CodeAct in Apptainer's sandboxes. A tiny model acts at
random and mends nothing: what tells its rollouts apart is a penalty for tokens.
"""

import shutil
from typing import NamedTuple

import orjson
import pytest
from tests.e2e.learning import runs, swe
from tests.support import small_bug
from tests.support.processes import running
from tests.support.real_vllm import tiny_model

from paddock.http import rollout_from_wire
from paddock.sandbox import SandboxError
from paddock.types import REWARDED, JsonObject, Rollout

CONFIG = runs.ROOT / "configs" / "train_one_gpu_swe.yaml"
STEPS, MEMBERS, TURNS = 2, 2, 3
LAUNCH = "policy.generation.vllm.launch"
AGENT = "env.nemo_gym.swe_agent.agents.swe"
ON_CPU = (
    "cluster.gpus_per_node=0",
    "policy.torch_cfg.device=cpu",
    "policy.precision=float32",
    f"{LAUNCH}.device=cpu",
    f"~{LAUNCH}.serve_kwargs.gpu_memory_utilization",
    f"{LAUNCH}.kv_cache_gib=1",
    f"{LAUNCH}.max_num_seqs=4",
    f"{LAUNCH}.enforce_eager=true",
)
SMALL = (
    f"grpo.max_num_steps={STEPS}",
    "grpo.num_prompts_per_step=1",
    f"grpo.num_generations_per_prompt={MEMBERS}",
    "policy.max_total_sequence_length=16384",
    "policy.generation.max_new_tokens=60",
    "policy.optimizer.kwargs.lr=1e-2",
    "+grpo.reward_shaping={enabled: true, token_penalty_per_1k: 1.0}",
    f"{AGENT}.agent_max_turns={TURNS}",
    f"{AGENT}.limits={{memory_mib: 512, disk_mib: 1024}}",
    f"{AGENT}.admission={{cores_per_sandbox: 0.1, memory_per_sandbox_mib: 256}}",
)
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.vllm,
    pytest.mark.long,
    pytest.mark.timeout(2 * runs.RUN_S),
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
]


class OneGpuRun(NamedTuple):
    steps: list[JsonObject]
    rollouts: list[Rollout]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> OneGpuRun:
    python, folder = runs.vllm_python(), tmp_path_factory.mktemp("one_gpu")
    try:
        small_bug.put_image(swe.HOME)
    except (FileNotFoundError, SandboxError) as error:
        pytest.skip(str(error))
    (folder / "rows.jsonl").write_bytes(orjson.dumps(small_bug.row("swe_agent")) + b"\n")
    sandbox = f"{{home: {swe.HOME}, runtime: apptainer}}"
    own = (
        f"data.train.data_path={folder / 'rows.jsonl'}",
        f"{LAUNCH}.folder={folder / 'vllm'}",
        f"+{AGENT}.sandbox={sandbox}",
        f"+env.nemo_gym.swe.resources_servers.swe.sandbox={sandbox}",
    )
    model = tiny_model(swe.HOME, python, runs.ROOT, harness="codeact")
    env, out = {**runs.environment(), "MODEL_PATH": str(model)}, folder / "run"
    arguments = ("train", CONFIG, *ON_CPU, *SMALL, *own, "--out", out)
    with running("paddock", *arguments, python=python, env=env, cwd=runs.ROOT) as command:
        assert command.code(timeout_s=runs.RUN_S) == 0, command.output()
    lines = (out / "rollouts.jsonl").read_bytes().splitlines()
    return OneGpuRun(runs.lines(out), [rollout_from_wire(orjson.loads(line)) for line in lines])


def test_each_step_trains_on_what_its_own_weights_sampled(trained: OneGpuRun) -> None:
    assert [line["step"] for line in trained.steps] == list(range(1, STEPS + 1))
    for line in trained.steps:
        metrics = line["metrics"]
        assert metrics["train/staleness/max"] == 0
        assert metrics["train/logprob_error/current/max_abs"] < 1e-4
        assert metrics["train/grad_norm"] > 0


def test_rollouts_are_of_sandboxes_and_judged(trained: OneGpuRun) -> None:
    assert len(trained.rollouts) == STEPS * MEMBERS
    for rollout in trained.rollouts:
        assert (rollout.outcome in REWARDED, rollout.engine) == (True, "exact")
        assert rollout.turns
    versions = [{turn.weight_version for turn in rollout.turns} for rollout in trained.rollouts]
    assert sorted(one for found in versions for one in found if one is not None) == ["0", "0", "1", "1"]
