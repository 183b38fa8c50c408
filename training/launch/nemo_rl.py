"""NeMo-RL's trainer with our environments: its own entry script, our `nemo_gym` before its own on PYTHONPATH.

Source  NVIDIA-NeMo/RL, `examples/nemo_gym/nemotron-3-super/super_launch.sh`: variables, overrides, mounts and caches;
        `ray.sub`: the job that starts Ray's head and workers on the nodes, in containers, and then runs COMMAND. That
        one is used as it is in the checkout; what it is given is made here.
Files   `driver.sh` is COMMAND: the model's own code is loaded once, then the entry script takes its place. Names and
        paths reach it quoted; `ray.sub` itself quotes neither image nor mounts.
Bounds  tried with stand-ins for Ray, containers and the entry script: no cluster has run this.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paddock.config.overrides import parse_override
from paddock.config.yaml_text import read_document
from paddock.errors import ConfigError
from paddock.training.launch.overrides import hydra_override, words_of
from paddock.training.launch.settings import ENTRY, RAY_JOB, RunLaunchSettings, variables_of
from paddock.training.launch.shell import BashScript, LaunchStep, exec_lines

GPUS_PER_NODE = 8
WANDB_PROJECT = "nemotron-3-super-posttraining"
SANDBOX_PORT = "6000"
_MEGATRON = "3rdparty/Megatron-Bridge-workspace/Megatron-Bridge/3rdparty/Megatron-LM"
_GYM = "3rdparty/Gym-workspace/Gym"
_LOAD = (
    "import sys; from transformers import AutoConfig, AutoTokenizer; "
    "[one.from_pretrained(sys.argv[1], trust_remote_code=True) for one in (AutoConfig, AutoTokenizer)]"
)
_FORMATTER = "env.nemo_gym.swe_agents_train.responses_api_agents.swe_agents.container_formatter"
_VLLM = "policy.generation.vllm_kwargs"


class LaunchFolders(NamedTuple):
    """The folders of a launch, all absolute."""

    checkout: Path
    """NeMo-RL's checkout."""
    code: Path
    """The code that runs: a snapshot of the checkout, or the checkout."""
    cache: Path
    package: Path
    """Paddock's checkout, with `src` and `shims`."""
    launch: Path
    """Scripts and logs of this launch."""


def folders_of(settings: RunLaunchSettings, package: Path, launch: Path) -> LaunchFolders:
    if not (package / "shims" / "nemo_gym").is_dir():
        raise ConfigError(
            f"NeMo-RL's trainer needs shims/nemo_gym of Paddock's checkout, which {package} has not", kind="shims"
        )
    checkout = Path(settings.nemo_rl_dir).expanduser().resolve()
    snapshot = settings.executor == "slurm" and not settings.skip_code_snapshot
    code = checkout / settings.code_snapshot_dirname / settings.exp_name if snapshot else checkout
    cache = Path(settings.persistent_cache or "~/.cache/paddock").expanduser().absolute()
    return LaunchFolders(checkout, code, cache, package, launch)


def config_file(settings: RunLaunchSettings) -> Path:
    """The path of the config: absolute, or relative to NeMo-RL's folder. ConfigError where there is none."""
    here = Path(settings.config_path)
    if here.is_file():
        return here.absolute()
    if (Path(settings.nemo_rl_dir).expanduser() / here).is_file():
        return here
    raise ConfigError(f"CONFIG_PATH: no file {here}, neither here nor in {settings.nemo_rl_dir}", kind="no_config")


def n_nodes(settings: RunLaunchSettings, extra_overrides: Sequence[str]) -> int:
    """The number of nodes of the allocation. ConfigError where nothing gives it."""
    if settings.nodes is not None:
        return settings.nodes
    changes = map(parse_override, extra_overrides)
    given = [change.value for change in changes if change.path == ("cluster", "num_nodes") and not change.delete]
    count = given[-1] if given else _num_nodes(Path(settings.nemo_rl_dir).expanduser() / config_file(settings), ())
    if not isinstance(count, int) or count < 1:
        raise ConfigError(
            f"SBATCH_NUM_NODES: {settings.config_path} and what it names in `defaults` have no cluster.num_nodes",
            kind="no_nodes",
        )
    return count


def _num_nodes(file: Path, parents: tuple[Path, ...]) -> Any:
    """`cluster.num_nodes` of a config, or of its `defaults`."""
    if file in parents or not file.is_file():
        return None
    tree = read_document(file, str(file)).tree
    cluster = tree.get("cluster")
    if isinstance(cluster, dict) and "num_nodes" in cluster:
        return cluster["num_nodes"]
    defaults = tree.get("defaults") or []
    for name in reversed([defaults] if isinstance(defaults, str) else defaults):
        if (count := _num_nodes(file.parent / str(name), (*parents, file))) is not None:
            return count
    return None


def setup_steps(settings: RunLaunchSettings, folders: LaunchFolders) -> list[LaunchStep]:
    """The steps on this machine before the run starts."""
    steps = [LaunchStep(["mkdir", "-p", *_caches(settings, folders).values()])]
    if folders.code != folders.checkout:
        name = f"CODE_SNAPSHOT_DIRNAME={settings.code_snapshot_dirname}"
        steps.append(LaunchStep(["env", name, "bash", "tools/code_snapshot.sh", settings.exp_name], folders.checkout))
    if folders.code != folders.checkout and settings.refresh_code_snapshot:
        files = "git ls-files --recurse-submodules --cached --full-name"
        line = f'{files} | rsync -a --files-from=- ./ "$1/"'
        steps.append(LaunchStep(["bash", "-o", "pipefail", "-c", line, "refresh", str(folders.code)], folders.checkout))
    return steps


def _caches(settings: RunLaunchSettings, folders: LaunchFolders) -> dict[str, str]:
    """The folders of caches, by the variable that names each."""
    cache = folders.cache
    return {
        "NRL_MEGATRON_CHECKPOINT_DIR": settings.nrl_megatron_checkpoint_dir or str(cache / "megatron_ckpt_cache"),
        "MEGATRON_CONFIG_LOCK_DIR": settings.megatron_config_lock_dir or str(cache / "hf_config_locks"),
        "HF_MODULES_CACHE": settings.hf_modules_cache or str(cache / "hf_modules" / settings.exp_name),
        "VLLM_CACHE_ROOT": str(cache / "vllm_compile_cache"),
        "DG_JIT_CACHE_DIR": str(cache / "vllm_compile_cache" / "deep_gemm"),
        "FLASHINFER_CUBIN_DIR": str(cache / "flashinfer_cubins"),
        "FLASHINFER_WORKSPACE_BASE": str(cache / "flashinfer_workspace"),
    }


def driver(settings: RunLaunchSettings, folders: LaunchFolders, extra_overrides: Sequence[str]) -> BashScript:
    """The script that runs on the node of Ray's head."""
    exports = {
        # Before what its launch script sets, by some of the same names.
        **{name: _absolute_if_here(value) for name, value in variables_of(settings).items()},
        **_caches(settings, folders),
        "NEMO_GYM_VENV_DIR": settings.gym_venv_dir,
        "NRL_FORCE_REBUILD_VENVS": str(settings.nrl_force_rebuild_venvs).lower(),
        "NRL_IGNORE_VERSION_MISMATCH": "1",
        "NRL_VLLM_USE_V1": "1",
        "NRL_WG_USE_RAY_REF": "1",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "UV_HTTP_TIMEOUT": str(settings.uv_http_timeout),
        "VLLM_ATTENTION_BACKEND": "FLASH_ATTN",
        "VLLM_DEEP_GEMM_WARMUP": "skip",
    }
    python = ["python"] if settings.executor == "slurm" else ["uv", "run", "--frozen", "python"]
    load = shlex.join([*python, "-c", _LOAD, _absolute_if_here(settings.model_path)])
    # By it NeMo-RL's actor of environments runs under this interpreter, not in an environment without our package.
    script = [*python, "-m", "paddock.training.nemo_rl", ENTRY]
    command = [*script, "--config", str(config_file(settings)), *overrides_of(settings, extra_overrides)]
    path = [folders.package / "shims", folders.package / "src", folders.code]
    return BashScript(folders.code, exports, [load, *exec_lines(command)], path)


def overrides_of(settings: RunLaunchSettings, extra_overrides: Sequence[str]) -> list[str]:
    """The overrides of NeMo-RL's launch script, then the caller's, then EXTRA_HYDRA_ARGS."""
    overrides = {
        "env.nemo_gym.uv_venv_dir": settings.gym_venv_dir,
        "policy.model_name": _absolute_if_here(settings.model_path),
        "checkpointing.checkpoint_dir": f"results/{settings.exp_name}",
        "logger.log_dir": f"logs/{settings.exp_name}",
        "logger.wandb.name": settings.exp_name,
        "logger.wandb.project": settings.wandb_proj or WANDB_PROJECT,
        "data.train.data_path": _absolute_if_here(settings.train_path),
        "data.validation.data_path": _absolute_if_here(settings.val_path),
    }
    if settings.sif_dir:
        overrides["sif_dir"] = _absolute_if_here(settings.sif_dir)
    if settings.container_formatter:
        overrides[_FORMATTER] = settings.container_formatter
    plain = ["env.nemo_gym.skip_venv_if_present=true", "logger.wandb_enabled=True"]
    texts = (hydra_override(key, text) for key, text in overrides.items())
    return [*plain, *texts, *_speculation(settings), *extra_overrides, *words_of(settings.extra_hydra_args)]


def _absolute_if_here(text: str) -> str:
    """The absolute path of what exists here; other text as it is: a hub name, or a path in the image."""
    return str(Path(text).absolute()) if Path(text).exists() else text


def _speculation(settings: RunLaunchSettings) -> list[str]:
    if not settings.enable_mtp_inference:
        return []
    return [
        "++policy.generation.vllm_cfg.enable_prefix_caching=false",
        f"++{_VLLM}.enable_chunked_prefill=true",
        f"++{_VLLM}.max_num_batched_tokens={settings.max_num_batched_tokens}",
        f"++{_VLLM}.mamba_cache_mode=align",
        f"~{_VLLM}.compilation_config.cudagraph_capture_sizes",
        f"++{_VLLM}.speculative_config.num_speculative_tokens={settings.num_speculative_tokens}",
        f"++{_VLLM}.speculative_config.method=mtp",
    ]


def job(settings: RunLaunchSettings, folders: LaunchFolders, driver_file: Path) -> BashScript:
    """The script that SLURM is given: NeMo-RL's own job, with what it runs on the nodes."""
    exports = {
        "COMMAND": shlex.join(["bash", str(driver_file)]),
        "CONTAINER": settings.container,
        "MOUNTS": ",".join(_mounts(settings, folders)),
        "GPUS_PER_NODE": str(GPUS_PER_NODE if settings.gpus_per_node is None else settings.gpus_per_node),
        "BASE_LOG_DIR": str(folders.launch),
        # Where the steps begin: of the job it is the folder of this command.
        "SLURM_SUBMIT_DIR": str(folders.code),
        "OMP_NUM_THREADS": "16",
        "RAY_DEDUP_LOGS": "1",
    }
    if settings.setup_command:
        exports["SETUP_COMMAND"] = settings.setup_command
    if settings.sandbox_container:
        exports |= {
            "SANDBOX_CONTAINER": settings.sandbox_container,
            "SANDBOX_COMMAND": "/start-with-nginx.sh",
            "SANDBOX_ENV_VARS": f"NEMO_SKILLS_SANDBOX_PORT={SANDBOX_PORT}",
            **dict.fromkeys(("LISTEN_PORT", "NGINX_PORT", "NEMO_SKILLS_SANDBOX_PORT"), SANDBOX_PORT),
        }
    # What it sets for its steps is to reach them.
    lines = ["unset SLURM_EXPORT_ENV", *exec_lines(["bash", RAY_JOB])]
    return BashScript(folders.code, exports, lines)


def _mounts(settings: RunLaunchSettings, folders: LaunchFolders) -> list[str]:
    code, checkout = folders.code, folders.checkout
    config = config_file(settings)
    same = [code, folders.package, folders.launch, folders.cache, *([config.parent] if config.is_absolute() else [])]
    return [
        *settings.mounts,
        *(f"{folder}:{folder}" for folder in dict.fromkeys(same)),
        f"{checkout / _MEGATRON}:{code / _MEGATRON}",
        f"{checkout / _GYM}:/opt/nemo-rl/{_GYM}",
    ]
