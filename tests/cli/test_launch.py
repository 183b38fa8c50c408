"""Claims about `paddock launch` as a command: what it reads, what it prints, what it leaves undone."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.training.launch.commands import CONFIG, prepare
from tests.training.launch.one_node import await_that

from paddock.cli import main
from paddock.cli.launch import split_words
from paddock.errors import ConfigError

LINES = "first line of \"x\"\nand $(a) second: 'one'"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; the environment has the variables."""
    monkeypatch.chdir(tmp_path)
    for name, value in prepare(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_words_are_variables_overrides_and_one_config() -> None:
    words = split_words(["a.yaml", f"MODEL_PATH={LINES}", "grpo.seed=1", "~data.validation", "+a.B=X=Y"])
    assert words.variables == {"CONFIG_PATH": "a.yaml", "MODEL_PATH": LINES}
    assert words.overrides == ["grpo.seed=1", "~data.validation", "+a.B=X=Y"]
    with pytest.raises(ConfigError, match=r"CONFIG_PATH is given twice: a\.yaml and b\.yaml"):
        split_words(["a.yaml", "b.yaml"])


def test_a_dry_run_prints_everything_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(folder.rglob("*"))
    assert main(["launch", "--run", "slurm", "--dry-run", "grpo.max_num_steps=3"]) == 0
    told = capsys.readouterr().out
    assert "policy.model_name=model data.train.data_path=train.jsonl" in told
    assert "train --out runs/first --resume" in told
    assert "grpo.max_num_steps=3 || status" in told
    assert "sbatch --parsable --job-name=first" in told
    assert set(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("grpo.max_num_stps=3", "max_num_steps"),
        ("TRAIN_PATH=nowhere.jsonl", "data.train.data_path: no file"),
        ("MODEL_PATH=./nowhere", "there is no folder ./nowhere"),
    ],
)
def test_a_mistake_of_the_config_is_told_before_a_job_is_queued(
    folder: Path, capsys: pytest.CaptureFixture[str], word: str, said: str
) -> None:
    assert main(["launch", "--run", "slurm", word]) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "runs").exists()


def test_variables_that_the_config_asks_for_go_with_the_job(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLICY_KEY", "xyzzy-4")
    key = "+policy.generation.vllm.api_key=${oc.env:POLICY_KEY}"
    assert main(["launch", "--run", "slurm", "--dry-run", key]) == 0
    told = capsys.readouterr().out
    (names,) = [word for word in told.splitlines()[-1].split() if word.startswith("--export=")]
    assert names.endswith(",POLICY_KEY")
    assert "xyzzy" not in told


def test_a_config_reads_the_variables_of_its_launch(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MODEL_PATH")
    config = folder / "mine.yaml"
    config.write_text(CONFIG.read_text().replace("runs/train-demo/made/model", "${oc.env:MODEL_PATH}"))
    words = ["launch", "MODEL_PATH=model", f"CONFIG_PATH={config}", "--run", "slurm", "--dry-run"]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "  export MODEL_PATH=model\n" in told
    assert "MODEL_PATH" not in told.splitlines()[-1], "it stands in the script"


def test_a_recipe_of_several_machines_is_a_job_of_several_nodes(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["launch", "cluster.num_nodes=4"]) == 2
    assert "cluster.num_nodes is 4" in capsys.readouterr().err
    assert main(["launch", "--run", "slurm", "--dry-run", "cluster.num_nodes=4"]) == 0
    assert "--nodes=4 " in capsys.readouterr().out.splitlines()[-1]
    words = ["cluster.address=head:6379", "cluster.num_nodes=4"]
    assert main(["launch", "--run", "slurm", "--dry-run", *words]) == 0
    assert "--nodes=1 " in capsys.readouterr().out.splitlines()[-1], "it joins a cluster that is there"
    monkeypatch.setenv("SBATCH_NUM_NODES", "4")
    assert main(["launch", "--run", "slurm", *words]) == 2
    assert "cluster.address is head:6379" in capsys.readouterr().err


def test_agents_with_sandboxes_are_given_the_nodes_of_the_job(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_NODES", "2")
    agent = "+env.nemo_gym.swe.agents.swe={resources_server: {type: resources_servers, name: pivot}, "
    agent += "model_server: {type: models_servers, name: policy_model}}"
    assert main(["launch", "--run", "slurm", "--dry-run", agent]) == 0
    told = capsys.readouterr().out
    assert 'env.nemo_gym.swe.agents.swe.sandbox.nodes="$sandbox_urls"' in told.replace("'", "")
    assert "pivot_agent" not in told, "it has none"
    assert main(["launch", "--run", "slurm", "--dry-run"]) == 2
    assert "SANDBOX_NODES is 2, and no agent of the config has sandboxes" in capsys.readouterr().err


def test_for_kubernetes_manifests_are_written_and_nothing_is_submitted(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "env.toml").write_text('[kube]\nexecutor = "kuberay"\nkube_claim = "shared"\n')
    monkeypatch.setenv("CONTAINER", "registry/paddock:1")
    monkeypatch.setenv("PATH", "")
    labels = ["cluster.num_nodes=3", "cluster.gpus_per_node=2", "cluster.labels.policy=role=policy"]
    assert main(["launch", "--run", "kube", *labels, "policy.torch_cfg.device=cuda"]) == 0
    told = capsys.readouterr().out
    job = folder / "runs" / "first" / "launch" / "job.yaml"
    assert f"  kubectl create -f {job}\n" in told
    manifest = yaml.safe_load(job.read_text())
    (workers,) = manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"][-1:]
    assert (workers["replicas"], workers["labels"]) == (1, {"role": "policy"})


def test_without_slurm_it_says_where_jobs_are_submitted(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert main(["launch", "--run", "slurm"]) == 2
    assert "there is no sbatch here" in capsys.readouterr().err
    assert not (folder / "runs").exists()


def test_what_is_fetched_before_follows_from_the_config(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["launch", "--prefetch", "--dry-run"]) == 0
    assert capsys.readouterr().out == "nothing to fetch\n"
    monkeypatch.delenv("PADDOCK_VLLM_PYTHON")
    row = {"instance_id": "astropy__astropy-1", "dataset": "swe_bench", "agent_ref": {"name": "swe"}}
    (folder / "train.jsonl").write_text(json.dumps(row) + "\n")
    agent = "+env.nemo_gym.swe.agents.swe={resources_server: {type: resources_servers, name: pivot}, "
    agent += "model_server: {type: models_servers, name: policy_model}, harness: codex_cli}"
    assert main(["launch", "--prefetch", "--dry-run", agent]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "an environment with vLLM for a CPU",
        "the program of harness codex_cli",
        "images of train.jsonl",
    ]
    assert lines[1].endswith("-m paddock harness install codex_cli")
    assert lines[2].endswith("-m paddock images pull --rows train.jsonl")


def test_the_variables_are_listed_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "--variables"]) == 0
    told = capsys.readouterr().out
    assert "SLURM_TIME_LIMIT  (time_limit, default '4:0:0')\n    Time limit of the job;" in told


@pytest.mark.slow
def test_a_run_here_is_told_to_end_and_gone_on_with(folder: Path) -> None:
    command = [sys.executable, "-m", "paddock", "launch"]
    run = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, env=dict(os.environ))
    begun = folder / "runs" / "first" / "begun.jsonl"
    await_that(begun.exists, "the run began", 120)
    run.send_signal(signal.SIGTERM)
    _, told = run.communicate(timeout=120)
    assert (run.returncode, told.decode()) == (130, "interrupted\n")
    again = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    assert (again.returncode, again.stderr) == (0, b"at its end\n")
    assert len(begun.read_text().splitlines()) == 2
