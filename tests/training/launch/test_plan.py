"""Claims about what a launch writes and runs: whatever a value is, the process is given it; no secret is in it."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training.launch.commands import HIDDEN
from tests.training.launch.test_resolve import resolved

from paddock.config.overrides import parse_override
from paddock.errors import ConfigError
from paddock.training.launch.plan import LaunchHost, LaunchPlan, PlanInputs, plan, plan_text
from paddock.training.launch.slurm import minutes

VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
RUDE = st.sampled_from([HIDDEN, "$(exit 3)", "a'b\"c\\", "-n", "* ?", "a\n\nb", "#x", "!!", "null", "1e3", "{a: b}"])


def make_plan(
    folder: Path, command: dict[str, Any], asked: PlanInputs | None = None, environ: dict[str, str] | None = None
) -> LaunchPlan:
    where = LaunchHost(folder, Path("/package"), environ or {"PATH": "/bin"})
    given = {"EXP_NAME": "e", "PADDOCK_VLLM_PYTHON": "/env/python", **command}
    return plan(resolved(given), asked or PlanInputs(), where)


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PATH: `srun` writes down its words and the environment."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "srun"
    program.write_text('#!/bin/bash\nprintf "%s\\0" "$@" >"$STUB.words"\nenv -0 >"$STUB.environ"\nexit 130\n')
    program.chmod(0o755)
    return folder


@settings(max_examples=40)
@given(path=st.one_of(RUDE, VALUES), image=st.one_of(RUDE, VALUES), python=st.one_of(RUDE, VALUES))
def test_any_value_arrives_in_the_process_as_it_was(stub: Path, path: str, image: str, python: str) -> None:
    folder = stub / "a folder's"
    folder.mkdir(exist_ok=True)
    command = {"executor": "slurm", "TRAIN_PATH": path, "CONTAINER": image, "PADDOCK_VLLM_PYTHON": python}
    made = make_plan(folder, command)
    made.write()
    environ = {"PATH": f"{stub}:{os.environ['PATH']}", "STUB": str(stub / "got")}
    done = subprocess.run(["bash", *made.files], env=environ, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, b""), "the step's own exit code"
    words = (stub / "got.words").read_bytes().decode().split("\0")[:-1]
    assert f"--container-image={image}" in words
    assert words[words.index("-m") - 1] == python
    (override,) = [parse_override(word) for word in words if word.startswith("data.train.data_path=")]
    assert override.value == path
    variables = dict(item.split("=", 1) for item in (stub / "got.environ").read_bytes().decode().split("\0")[:-1])
    assert (variables["PADDOCK_VLLM_PYTHON"], variables["TRAIN_PATH"]) == (python, path), "a config may read them"
    assert variables["PWD"] == str(folder)


def test_a_run_here_takes_the_place_of_its_script(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    made = make_plan(tmp_path, {"PADDOCK_VLLM_PYTHON": str(program)})
    made.write()
    assert subprocess.run(made.start.words, check=False, timeout=60).returncode == 7
    assert made.log is None


def test_what_is_printed_is_what_is_written_and_run(tmp_path: Path) -> None:
    command = {"executor": "slurm", "SLURM_ACCOUNT": "a", "SLURM_TIME_LIMIT": "2-0", "MODEL_PATH": "m", "memory": "8G"}
    made = make_plan(tmp_path, command, PlanInputs(["grpo.seed=1"], gpus=3))
    made.write()
    text = plan_text(made)
    (script,) = made.files
    assert script.read_text() == made.files[script]
    assert all(f"  {line}\n" in text for line in script.read_text().splitlines())
    assert text.endswith(f"runs:\n  {shlex.join(made.start.words)}")
    assert shlex.split(script.read_text().splitlines()[-2].removesuffix(" || status=$?")) == [
        *("srun", "--nodes=1", "--ntasks=1", "--export=ALL", "--cpu-bind=none"),
        *("/env/python", "-m", "paddock", "train", "--out", "runs/e", "--resume"),
        *("c.yaml", "policy.model_name=m", "grpo.seed=1"),
    ]
    assert list(made.start.words) == [
        *("sbatch", "--parsable", "--job-name=e", "--nodes=1", "--time=2-0", "--dependency=singleton", "--requeue"),
        *("--open-mode=append", f"--output={tmp_path}/runs/e/launch/%j.log", "--export=PATH", "--account=a"),
        *("--gres=gpu:3", "--mem=8G", "--ntasks-per-node=1", "--signal=TERM@120", str(script)),
    ]


def test_secrets_go_by_name(tmp_path: Path) -> None:
    environ = {"PATH": "/bin", "HF_TOKEN": HIDDEN, "JUDGE_KEY": HIDDEN, "OTHER": HIDDEN}
    asked = PlanInputs(["judge.api_key=${oc.env:JUDGE_KEY}"], reads=["JUDGE_KEY", "NOT_SET"])
    made = make_plan(tmp_path, {"executor": "slurm", "env": ["OTHER"]}, asked, environ)
    assert "--export=PATH,HF_TOKEN,OTHER,JUDGE_KEY" in made.start.words
    assert "touch" not in json.dumps([plan_text(made), *made.files.values()])


@pytest.mark.parametrize("where", ["override", "EXTRA_HYDRA_ARGS"])
def test_a_secret_that_would_stand_in_a_script_is_refused(tmp_path: Path, where: str) -> None:
    text = "+policy.generation.vllm.api_key=xyzzy-3"
    command = {where: f"a=1 {text}"} if where != "override" else {}
    with pytest.raises(ConfigError, match=r"api_key`: a secret would stand.*oc\.env:NAME") as error:
        make_plan(tmp_path, command, PlanInputs([text] if where == "override" else []))
    assert "xyzzy" not in str(error.value)


def test_a_variable_that_was_asked_for_and_is_not_set_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="OTHER is not set here"):
        make_plan(tmp_path, {"executor": "slurm", "env": ["OTHER"]})


def test_wandb_is_on_where_a_project_is_named(tmp_path: Path) -> None:
    (script,) = make_plan(tmp_path, {"WANDB_PROJ": "p", "EXTRA_HYDRA_ARGS": "grpo.seed=2 a='b c'"}).files.values()
    words = shlex.split(script.splitlines()[-1])
    shown = [word for word in words if "=" in word]
    assert shown == [
        *("logger.wandb.project=p", "logger.wandb.name=e", "logger.wandb_enabled=true", "grpo.seed=2", "a=b c")
    ]


SEVERAL = {"executor": "slurm", "SBATCH_NUM_NODES": "3", "SANDBOX_NODES": "2", "CONTAINER": "an image"}


def test_a_job_of_several_nodes_has_a_step_for_each_role(tmp_path: Path) -> None:
    asked = PlanInputs(["grpo.seed=1"], gpus=4, agents=["env.nemo_gym.a b.agents.swe"])
    made = make_plan(tmp_path, {**SEVERAL, "ray_port": 7000, "sandbox_port": 9000, "sandbox_partition": "cpu"}, asked)
    (script,) = made.files.values()
    steps = [shlex.split(line) for line in script.splitlines() if line.startswith("srun ")]
    serve, workers, head = steps
    assert serve[:4] == ["srun", "--het-group=1", "--nodes=2", "--ntasks=2"]
    assert {"serve", "--host=0.0.0.0", "--port=9000", "--token-file", "$tokens/sandbox"} <= set(serve)
    assert not [word for word in serve if word.startswith("--container")], "sandboxes need the machine"
    assert workers[:4] == ["srun", "--relative=1", "--nodes=2", "--ntasks=2"]
    assert head[:4] == ["srun", "--relative=0", "--nodes=1", "--ntasks=1"]
    for step in (workers, head):
        assert {"--container-image=an image", "--port=7000", "--gpus=4", "$hosts"} <= set(step)
    assert head[head.index("--") + 1 : -2] == [
        *("/env/python", "-m", "paddock", "train", "--out", "runs/e", "--resume", "c.yaml"),
        *("grpo.seed=1", "cluster.num_nodes=3", "cluster.address=auto"),
        "env.nemo_gym.a b.agents.swe.sandbox.nodes=$sandbox_urls",
        "env.nemo_gym.a b.agents.swe.sandbox.node_token_file=$tokens/sandbox",
    ]
    first, second = " ".join(made.start.words).split(" : ")
    assert {"--nodes=3", "--gres=gpu:4"} <= set(first.split())
    assert {"--nodes=2", "--partition=cpu", "--job-name=e-sandboxes"} <= set(second.split())
    assert "gpu" not in second


def test_one_node_is_no_cluster(tmp_path: Path) -> None:
    (script,) = make_plan(tmp_path, {"executor": "slurm", "SBATCH_NUM_NODES": "1"}, PlanInputs(nodes=2)).files.values()
    assert "ray_node" not in script
    assert "cluster.address" not in script
    (script,) = make_plan(tmp_path, {"executor": "slurm"}, PlanInputs(nodes=2)).files.values()
    assert "cluster.num_nodes=2 cluster.address=auto" in script, "as many as the config says"


def test_labels_of_nodes_are_refused_where_nothing_gives_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.labels: zone=a: the nodes of a SLURM job have no labels"):
        make_plan(tmp_path, {"executor": "slurm"}, PlanInputs(nodes=2, labels={"zone=a": 0}))


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck here")
@pytest.mark.parametrize("command", [SEVERAL, {"executor": "slurm"}, {}])
def test_scripts_are_clean(tmp_path: Path, command: dict[str, Any]) -> None:
    made = make_plan(tmp_path, command, PlanInputs(agents=["env.nemo_gym.a.agents.swe"]))
    made.write()
    done = subprocess.run(["shellcheck", *made.files], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30", 30), ("30:30", 30.5), ("4:0:0", 240), ("2-0", 2880), ("1-1:30", 1530), ("1-1:30:30", 1530.5)],
)
def test_a_time_limit_is_read_as_slurm_reads_it(text: str, expected: float) -> None:
    assert minutes(text) == expected


def test_a_short_job_is_not_told_to_end_at_its_start(tmp_path: Path) -> None:
    made = make_plan(tmp_path, {"executor": "slurm", "SLURM_TIME_LIMIT": "5"})
    assert not [word for word in made.start.words if word.startswith("--signal")]
