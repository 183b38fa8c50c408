"""Claims about who wins, what is refused, and what is only told."""

from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.training.launch.profiles import read_profile
from paddock.training.launch.resolve import ResolvedLaunch, resolve
from paddock.training.launch.settings import NEMO_RL_FIELDS, VARIABLES, RunLaunchSettings

SUPER_LAUNCH = {
    *("EXP_NAME", "CONFIG_PATH", "MODEL_PATH", "TRAIN_PATH", "VAL_PATH", "CONTAINER", "SANDBOX_CONTAINER"),
    *("PERSISTENT_CACHE", "SLURM_PARTITION", "SLURM_ACCOUNT", "EXTRA_MOUNTS", "SBATCH_NUM_NODES", "SKIP_CODE_SNAPSHOT"),
    *("REFRESH_CODE_SNAPSHOT", "SIF_DIR", "CONTAINER_FORMATTER", "WANDB_PROJ", "SLURM_TIME_LIMIT", "DRY_RUN"),
    *("NRL_MEGATRON_CHECKPOINT_DIR", "MEGATRON_CONFIG_LOCK_DIR", "HF_MODULES_CACHE", "GYM_VENV_DIR", "UV_HTTP_TIMEOUT"),
    *("NRL_FORCE_REBUILD_VENVS", "ENABLE_MTP_INFERENCE", "NUM_SPECULATIVE_TOKENS", "MAX_NUM_BATCHED_TOKENS"),
    *("EXTRA_HYDRA_ARGS", "CODE_SNAPSHOT_DIRNAME"),
}
"""What that script and the one that makes its snapshots read."""


def resolved(
    command: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
    toml: str = "",
    run: str | None = None,
    folder: Path | None = None,
) -> ResolvedLaunch:
    file = folder / "env.toml" if folder is not None else None
    if file is not None:
        file.write_text(toml)
    return resolve({"CONFIG_PATH": "c.yaml", **(command or {})}, environ or {}, read_profile(run, file))


def test_every_variable_of_the_published_launch_is_one_here() -> None:
    assert set(VARIABLES.values()) >= SUPER_LAUNCH
    assert set(NEMO_RL_FIELDS) <= set(RunLaunchSettings.model_fields)
    assert all(field.description for field in RunLaunchSettings.model_fields.values())


def test_the_command_line_wins_over_the_environment_over_the_profile_over_the_default(tmp_path: Path) -> None:
    toml = '[site]\nexecutor = "slurm"\naccount = "p"\npartition = "p"\ntime = "1:0:0"\n'
    environ = {"SLURM_ACCOUNT": "e", "SLURM_PARTITION": "e", "MODEL_PATH": ""}
    found = resolved({"SLURM_ACCOUNT": "c"}, environ, toml, "site", tmp_path)
    settings = found.settings
    assert (settings.account, settings.partition, settings.time_limit) == ("c", "e", "1:0:0")
    assert (settings.memory, settings.model_path) == ("", "")
    assert found.origins["account"] == "command line"
    assert found.origins["partition"] == "environment"
    assert found.origins["time_limit"] == f"{tmp_path / 'env.toml'} [site]"
    assert not {"memory", "model_path"} & set(found.origins)


def test_a_profile_stands_on_others_and_on_a_name_of_its_own(tmp_path: Path) -> None:
    toml = '[slurm]\naccount = "a"\n[wandb]\nproject = "w"\n'
    toml += '[big]\nextends = "slurm"\nmounts = ["/a:/b", "/c:/d:ro"]\ngpus = 4\n'
    settings = resolved(toml=toml, run="big", folder=tmp_path).settings
    assert (settings.executor, settings.account, settings.gpus_per_node) == ("slurm", "a", 4)
    assert (settings.mounts, settings.wandb_proj) == (("/a:/b", "/c:/d:ro"), "w")
    assert resolved().settings.executor == "local", "without a profile a run is here"


@pytest.mark.parametrize(
    ("toml", "run", "said"),
    [
        ("[site]\nacount = 'x'", "site", r"\[site\]: unknown key `acount`; nearest: `account`"),
        ("[site]\ntime = '1:0:0'\ntime_limit = '2:0:0'", "site", "another name of `time_limit`"),
        ("account = 'x'", None, "`account` stands outside of a"),
        ("[site]\nextends = 'site'", "site", "circle: site -> site"),
        ("[site]", "sites", "no profile 'sites'.*nearest: `site`"),
        ("[wandb]", "wandb", "no profile 'wandb'"),
        (
            "[site]\nexecutor = 'docker'",
            "site",
            r"`executor` of a profile .*\[site\]\): Input should be 'local', 'slurm' or 'kuberay'",
        ),
        ("[site]\nenv = ['HF_TOKEN=xyzzy']", "site", "names of variables, never values: 'HF_TOKEN'"),
        ("[site\n", "site", "env.toml: "),
    ],
)
def test_a_profile_that_is_wrong_is_told_where(tmp_path: Path, toml: str, run: str | None, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        resolved(toml=toml, run=run, folder=tmp_path)
    assert "xyzzy" not in str(error.value)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"MODEL_PATHS": "x"}, "unknown variable MODEL_PATHS; nearest: `MODEL_PATH`"),
        ({"EXP_NAME": "../other"}, r"EXP_NAME \(command line\): String should match"),
        ({"SLURM_TIME_LIMIT": "soon"}, "SLURM_TIME_LIMIT"),
        ({"EXTRA_MOUNTS": "/a"}, "'/a' is no `host:container`"),
        ({"SBATCH_NUM_NODES": "2"}, "SBATCH_NUM_NODES is 2: .*this machine alone"),
        ({"SANDBOX_NODES": "2"}, "SANDBOX_NODES is 2: .*this machine alone"),
        ({"SANDBOX_NODES": "1", "executor": "slurm", "trainer": "nemo_rl"}, "SANDBOX_NODES: the job of NeMo-RL's"),
        ({"CONTAINER": "x"}, "images are started by SLURM"),
        ({"CONFIG_PATH": ""}, "CONFIG_PATH: name a training config"),
    ],
)
def test_what_cannot_be_is_told_by_its_variable(command: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolved(command)


def test_what_says_nothing_is_noted_and_not_refused() -> None:
    environ = {"TRAIN_PATHS": "x", "GYM_VENV_DIR": "/v", "MODULEPATH": "x", "SLURM_JOB_PARTITION": "x", "HF_TOKEN": "x"}
    environ["PADDOCK_TRL_PYTHON"] = "/v/bin/python"
    first, second = resolved(environ=environ).notes
    assert first == "TRAIN_PATHS of the environment is no variable of a launch; TRAIN_PATH is"
    assert second.startswith("GYM_VENV_DIR (environment) has no effect on the built-in loop")


def test_a_run_has_the_name_of_its_config_and_a_model_no_slash_at_its_end() -> None:
    settings = resolved({"CONFIG_PATH": "a/swe1.yaml", "MODEL_PATH": "/models/one//"}).settings
    assert (settings.exp_name, settings.model_path) == ("swe1", "/models/one")
    with pytest.raises(ConfigError, match=r"EXP_NAME \(name of the config\)"):
        resolved({"CONFIG_PATH": "a/my run.yaml"})


def test_the_profiles_of_the_documentation_are_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "training" / "launch" / "README.md").read_text()
    toml = text.partition("```toml\n")[2].partition("```")[0]
    settings = resolved(toml=toml, run="cluster-short", folder=tmp_path).settings
    assert (settings.account, settings.time_limit, settings.env) == ("science", "1:0:0", ("HF_TOKEN", "JUDGE_API_KEY"))
