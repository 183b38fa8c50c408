"""Claims about launches of NeMo-RL: what its entry script and its job are given."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.training.launch.test_resolve import resolved

from paddock.errors import ConfigError
from paddock.training.launch.overrides import hydra_override
from paddock.training.launch.plan import LaunchHost, LaunchPlan, PlanInputs, plan, plan_text

SITE = {
    "executor": "slurm",
    "CONTAINER": "image.sqsh",
    "PERSISTENT_CACHE": "/cache",
    "SLURM_PARTITION": "p",
    "SLURM_ACCOUNT": "a",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Of NeMo-RL, as far as a launch looks at it."""
    folder = tmp_path / "RL"
    (folder / "examples" / "nemo_gym").mkdir(parents=True)
    (folder / "examples" / "nemo_gym" / "run_grpo_nemo_gym.py").write_text("")
    (folder / "ray.sub").write_text('printf "%s\\0" "$COMMAND" "$MOUNTS" "${SLURM_EXPORT_ENV-none}" "$PWD"\n')
    (folder / "base.yaml").write_text("cluster: {num_nodes: 4}\n")
    (folder / "stage.yaml").write_text("defaults: base.yaml\n")
    return folder


def make_plan(checkout: Path, command: dict[str, Any], overrides: list[str] | None = None) -> LaunchPlan:
    package = checkout.parent / "package"
    (package / "shims" / "nemo_gym").mkdir(parents=True, exist_ok=True)
    given = {"trainer": "nemo_rl", "NEMO_RL_DIR": str(checkout), "CONFIG_PATH": "stage.yaml", "MODEL_PATH": "own/model"}
    paths = {"EXP_NAME": "e", "TRAIN_PATH": "/d/t.jsonl", "VAL_PATH": "/d/v.jsonl"}
    where = LaunchHost(checkout.parent, package, {"PATH": os.environ["PATH"]})
    return plan(resolved({**given, **paths, **command}), PlanInputs(overrides or []), where)


def driver_words(made: LaunchPlan) -> list[str]:
    (text,) = [text for path, text in made.files.items() if path.name == "driver.sh"]
    return shlex.split(text.splitlines()[-1])


def test_its_entry_script_has_the_published_overrides(checkout: Path) -> None:
    words = driver_words(make_plan(checkout, SITE, ["grpo.max_num_steps=3"]))
    entry = "examples/nemo_gym/run_grpo_nemo_gym.py"
    assert words[:7] == ["exec", "python", "-m", "paddock.training.nemo_rl", entry, "--config", "stage.yaml"]
    assert set(words[7:-1]) == {
        "env.nemo_gym.uv_venv_dir=/opt/gym_venvs",
        "env.nemo_gym.skip_venv_if_present=true",
        "policy.model_name=own/model",
        "checkpointing.checkpoint_dir=results/e",
        "logger.log_dir=logs/e",
        "logger.wandb_enabled=True",
        "logger.wandb.name=e",
        "logger.wandb.project=nemotron-3-super-posttraining",
        "data.train.data_path=/d/t.jsonl",
        "data.validation.data_path=/d/v.jsonl",
    }
    assert words[-1] == "grpo.max_num_steps=3"


def test_our_shim_stands_before_its_own_environments(checkout: Path) -> None:
    made = make_plan(checkout, SITE)
    package, code = checkout.parent / "package", checkout / "code_snapshots" / "e"
    assert f'export PYTHONPATH={package}/shims:{package}/src:{code}"${{PYTHONPATH:+:$PYTHONPATH}}"' in plan_text(made)


def test_its_job_is_told_what_to_run_on_which_nodes(checkout: Path) -> None:
    made = make_plan(checkout, {**SITE, "EXTRA_MOUNTS": "/x:/y", "SKIP_CODE_SNAPSHOT": "true"})
    made.write()
    environ = {"PATH": os.environ["PATH"], "SLURM_EXPORT_ENV": "PATH"}
    job = checkout.parent / "runs" / "e" / "launch" / "job.sh"
    done = subprocess.run(["bash", str(job)], env=environ, capture_output=True, text=True, check=True, timeout=60)
    command, mounts, exported, folder = done.stdout.split("\0")[:-1]
    assert command == f"bash {job.with_name('driver.sh')}"
    package = checkout.parent / "package"
    assert mounts.split(",") == [
        *("/x:/y", f"{checkout}:{checkout}", f"{package}:{package}", f"{job.parent}:{job.parent}", "/cache:/cache"),
        *(mount for mount in mounts.split(",")[-2:] if "3rdparty" in mount),
    ]
    assert (exported, folder) == ("none", str(checkout)), "its steps have all that it sets"
    assert {"--nodes=4", "--exclusive", "--gres=gpu:8", "--account=a"} <= set(made.start.words)
    assert not [step for step in made.before if "code_snapshot" in step.text()]


def test_nodes_are_counted_by_whoever_says_so_last(checkout: Path) -> None:
    assert "--nodes=9" in make_plan(checkout, SITE, ["cluster.num_nodes=9"]).start.words
    command = {**SITE, "SBATCH_NUM_NODES": "21"}
    assert "--nodes=21" in make_plan(checkout, command, ["cluster.num_nodes=9"]).start.words
    (checkout / "base.yaml").write_text("defaults: stage.yaml\n")
    with pytest.raises(ConfigError, match=r"SBATCH_NUM_NODES: stage\.yaml"):
        make_plan(checkout, SITE)


def test_a_snapshot_is_made_and_brought_up_to_date_before(checkout: Path) -> None:
    texts = [step.text() for step in make_plan(checkout, SITE).before]
    assert [text for text in texts if "tools/code_snapshot.sh e" in text]
    assert [text for text in texts if "rsync" in text]
    kept = [step.text() for step in make_plan(checkout, {**SITE, "REFRESH_CODE_SNAPSHOT": "false"}).before]
    assert not [text for text in kept if "rsync" in text]


def test_what_a_stage_asks_for_besides_is_added(checkout: Path) -> None:
    more = {"SIF_DIR": "/sif", "CONTAINER_FORMATTER": "/sif/{instance_id}.sif", "ENABLE_MTP_INFERENCE": "1"}
    made = make_plan(checkout, {**SITE, **more, "SANDBOX_CONTAINER": "sandbox.sqsh", "EXTRA_HYDRA_ARGS": "a.b=last"})
    words = driver_words(made)
    formatter = "env.nemo_gym.swe_agents_train.responses_api_agents.swe_agents.container_formatter"
    assert {"sif_dir=/sif", f"{formatter}='/sif/{{instance_id}}.sif'"} <= set(words)
    assert "++policy.generation.vllm_kwargs.speculative_config.num_speculative_tokens=5" in words
    assert words[-1] == "a.b=last"
    assert "export SANDBOX_COMMAND=/start-with-nginx.sh" in plan_text(made)
    assert "export SIF_DIR=/sif" in plan_text(made), "a config may read it"


def test_what_only_images_and_sites_need_has_a_default_here(checkout: Path) -> None:
    made = make_plan(checkout, {})
    assert made.start.words[0] == "bash"
    (text,) = made.files.values()
    assert "exec uv run --frozen python -m paddock.training.nemo_rl examples/nemo_gym/run_grpo_nemo_gym.py" in text


def test_what_is_missing_is_told_at_once(checkout: Path) -> None:
    with pytest.raises(ConfigError) as error:
        make_plan(checkout, {"executor": "slurm", "MODEL_PATH": "", "EXTRA_MOUNTS": "/a b:/c"})
    for name in ("MODEL_PATH", "CONTAINER", "PERSISTENT_CACHE", "SLURM_PARTITION", "SLURM_ACCOUNT"):
        assert f"{name} is required by NeMo-RL's trainer" in str(error.value)
    assert "EXTRA_MOUNTS: NeMo-RL's ray.sub takes no spaces" in str(error.value)
    with pytest.raises(ConfigError, match="is no checkout of NeMo-RL"):
        make_plan(checkout, {"NEMO_RL_DIR": str(checkout.parent)})
    with pytest.raises(ConfigError, match="CONFIG_PATH: no file nowhere"):
        make_plan(checkout, {"CONFIG_PATH": "nowhere.yaml"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a/b-c.d", "k=/a/b-c.d"),
        ("true", "k='true'"),
        ("12", "k='12'"),
        ("it's", r"k='it\'s'"),
        ("a b\\", r"k='a b\\'"),
        (r"a\'b", r"k='a\\\'b'"),
        (r"a\b c", r"k='a\b c'"),
        ("", "k=''"),
    ],
)
def test_a_value_is_quoted_as_hydra_reads_it(text: str, expected: str) -> None:
    assert hydra_override("k", text) == expected
