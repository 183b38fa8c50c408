"""The settings of a launch: each field has a variable (`VARIABLES`), a name in a profile, and a default.

Names   the variables are those of NeMo-RL's `super_launch.sh`; a field without one is a profile's alone.
Law     settings that depend on a container or a site have a default, but for NeMo-RL's trainer on SLURM. No field holds
        a secret: `env` has names.
Units   `time_limit` is SLURM's `D-H:M:S`; nodes, GPUs and CPUs are counts; 0 GPUs: none are asked for.
Errors  what a field can't be is pydantic's; what does not go together is in `problems`.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

Trainer = Literal["paddock", "nemo_rl"]
Executor = Literal["local", "slurm", "kuberay"]
ENTRY = "examples/nemo_gym/run_grpo_nemo_gym.py"
RAY_JOB = "ray.sub"
"""Scripts of NeMo-RL: its trainer with environments, and its job that starts Ray on the nodes."""
_KUBE_NAME = r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$"
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _split_commas(value: Any) -> Any:
    """The list of a variable with commas; a profile's list as it is."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


CommaList = Annotated[tuple[str, ...], BeforeValidator(_split_commas)]


class RunLaunchSettings(BaseModel):
    """The settings of one launch, from all sources."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    trainer: Trainer = "paddock"
    """paddock: the built-in loop; nemo_rl: NeMo-RL's own entry script with our environments."""
    executor: Executor = "local"
    """local: this machine, in the foreground; slurm: a job; kuberay: manifests for Kubernetes, which you submit."""

    exp_name: str = Field(default="", pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$", max_length=120)
    """Name of the job and of the run's folder, runs/EXP_NAME (NeMo-RL: results/ and logs/EXP_NAME); empty: the name of
    the config file. The same name again goes on with the same run."""
    config_path: str = ""
    """The training config. NeMo-RL's are looked for here, then in its own folder."""
    model_path: str = ""
    """Folder or hub name of the model to begin with: policy.model_name; empty: as the config says."""
    train_path: str = ""
    """Rows to train on: data.train.data_path; empty: as the config says."""
    val_path: str = ""
    """Rows to validate on: data.validation.data_path; empty: as the config says."""

    container: str = ""
    """Image of the job's steps: for SLURM's pyxis a URI or .sqsh, on Kubernetes the image of all pods; empty: none, the
    node's own programs."""
    sandbox_container: str = ""
    """Image of NeMo-RL's code sandbox beside each node; empty: none is started."""
    mounts: CommaList = ()
    """`host:container`, with commas between; the working directory is mounted besides."""
    persistent_cache: str = ""
    """Folder that all nodes see, of caches and environments; empty: ~/.cache/paddock."""

    partition: str = ""
    """SLURM's partition; empty: its default."""
    account: str = ""
    """SLURM's account; empty: its default."""
    nodes: int | None = Field(default=None, ge=1)
    """Nodes of the job; none: cluster.num_nodes of the config. Of several, the built-in loop has Ray on each."""
    gpus_per_node: int | None = Field(default=None, ge=0)
    """GPUs of each node; none: cluster.gpus_per_node of the config for the built-in loop, 8 for NeMo-RL."""
    cpus_per_task: int | None = Field(default=None, ge=1)
    """CPUs of a task; none: SLURM's default."""
    memory: str = Field(default="", pattern=r"^(\d+[KMGT]?)?$")
    """SLURM's --mem, such as 64G; 0: all of a node; empty: SLURM's default. On Kubernetes a pod's memory; 0, empty: no
    limit."""
    exclusive: bool = False
    """Take whole nodes."""
    time_limit: str = Field(default="4:0:0", pattern=r"^(\d+-)?\d+(:\d+){0,2}$")
    """Time limit of the job; the run gets a signal to end two minutes before."""
    env: CommaList = ()
    """Names of variables of this environment that the job has too: secrets go this way alone."""
    python: str = ""
    """Interpreter of the built-in loop: with torch, Ray and vLLM; empty: the one that runs this command, or the image's
    python3."""
    ray_port: int = Field(default=6379, ge=1024, le=65535)
    """Port of Ray's head, on the first of several nodes; two jobs that share a node need different ones."""
    ray_wait_s: float = Field(default=300.0, gt=0)
    """Seconds that a job waits until Ray has started on all of its nodes."""
    ray_object_store_mib: int = Field(default=2048, ge=100)
    """MiB of each node's memory that Ray may hold objects in."""

    sandbox_nodes: int = Field(default=0, ge=0)
    """Nodes of sandboxes that the job has besides, for all of its agents; 0: sandboxes are where the config says."""
    sandbox_partition: str = ""
    """Partition of the nodes of sandboxes; empty: that of the others."""
    sandbox_port: int = Field(default=8900, ge=1024, le=65535)
    """Port at which a node of sandboxes answers."""
    sandbox_settings: str = ""
    """YAML file with their settings, as of `paddock sandbox serve --settings`; empty: all defaults."""
    sandbox_python: str = ""
    """Interpreter with Paddock there, outside of any image; empty: the one that runs this command."""
    sandbox_wait_s: float = Field(default=300.0, gt=0)
    """Seconds that a job waits until its nodes of sandboxes answer."""

    kube_namespace: str = Field(default="", pattern=_KUBE_NAME)
    """Namespace of what is written for Kubernetes; empty: that of `kubectl`'s context."""
    kube_claim: str = Field(default="", pattern=_KUBE_NAME)
    """PersistentVolumeClaim that all pods have at the path of this working directory: config, rows, run."""
    kube_secret: str = Field(default="", pattern=_KUBE_NAME)
    """Secret with a key for each variable of `env` and of the config, and SANDBOX_TOKEN for nodes of sandboxes."""
    kube_ray_version: str = Field(default="2.60.0", pattern=r"^\d+\.\d+\.\d+$")
    """Version of Ray in the image; tokens need 2.52 or later."""
    kube_backoff_limit: int = Field(default=3, ge=0)
    """How often a failed job is tried again, each time on a new cluster."""
    kube_sandbox_image: str = ""
    """Image of the nodes of sandboxes, with Paddock and a sandbox runtime; empty: that of all pods."""
    kube_sandbox_selector: CommaList = ()
    """`KEY=VALUE` labels of the nodes of Kubernetes that serve sandboxes, with commas between."""
    dry_run: bool = False
    """Print what would run, and run nothing."""

    nemo_rl_dir: str = ""
    """Folder of NeMo-RL's checkout."""
    skip_code_snapshot: bool = False
    """Run NeMo-RL from its checkout, and make no snapshot of it."""
    refresh_code_snapshot: bool = True
    """Bring a snapshot that is there up to date."""
    code_snapshot_dirname: str = Field(default="code_snapshots", pattern=r"^[A-Za-z0-9._-]+$")
    """Folder of snapshots in NeMo-RL's checkout."""
    sif_dir: str = ""
    """Folder of .sif images: NeMo-RL's override `sif_dir`; configs of ours read the variable."""
    container_formatter: str = ""
    """Template of the paths of rows' images, for NeMo-RL's training agent; configs of ours read the variable."""
    wandb_proj: str = ""
    """W&B's project; empty: the built-in loop sends it nothing, NeMo-RL's is nemotron-3-super-posttraining."""
    nrl_megatron_checkpoint_dir: str = ""
    """Folder of converted weights; empty: megatron_ckpt_cache in PERSISTENT_CACHE."""
    megatron_config_lock_dir: str = ""
    """Folder of locks on configs; empty: hf_config_locks in PERSISTENT_CACHE."""
    hf_modules_cache: str = ""
    """Folder of models' own code; empty: hf_modules/EXP_NAME in PERSISTENT_CACHE."""
    gym_venv_dir: str = "/opt/gym_venvs"
    """Folder of environments: env.nemo_gym.uv_venv_dir."""
    uv_http_timeout: int = Field(default=300, ge=1)
    """Seconds that uv waits for a download."""
    nrl_force_rebuild_venvs: bool = False
    """Build the environments of Ray's workers again."""
    enable_mtp_inference: bool = False
    """Speculative decoding with the model's own heads."""
    num_speculative_tokens: int = Field(default=5, ge=1)
    """Tokens of a speculation, with ENABLE_MTP_INFERENCE."""
    max_num_batched_tokens: int = Field(default=8480, ge=1)
    """vLLM's tokens of a batch, with ENABLE_MTP_INFERENCE."""
    extra_hydra_args: str = ""
    """More overrides, as words of a shell; the last, so they win."""
    setup_command: str = ""
    """Command that `ray.sub` runs on each node first, such as the installation of what our servers import."""

    @field_validator("model_path")
    @classmethod
    def _named(cls, value: str) -> str:
        # Of a path that ends in a slash the last part is empty: the name of the cache of a model's own code.
        return value.rstrip("/") or value

    @field_validator("mounts")
    @classmethod
    def _mounts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [mount for mount in value if not 1 <= mount.count(":") <= 2 or not all(mount.split(":"))]:
            raise ValueError(f"{wrong[0]!r} is no `host:container`")
        return value

    @field_validator("kube_sandbox_selector")
    @classmethod
    def _pairs(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [pair for pair in value if not all(pair.partition("="))]:
            raise ValueError(f"{wrong[0]!r} is no `KEY=VALUE`")
        return value

    @field_validator("env")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [name for name in value if not _ENV_NAME.fullmatch(name)]:
            # What stands behind the name might be the secret.
            name = wrong[0].partition("=")[0]
            raise ValueError(f"names of variables, never values: {name!r} is none or has one")
        return value


_NAMES = {
    "partition": "SLURM_PARTITION",
    "account": "SLURM_ACCOUNT",
    "nodes": "SBATCH_NUM_NODES",
    "time_limit": "SLURM_TIME_LIMIT",
    "mounts": "EXTRA_MOUNTS",
    "python": "PADDOCK_VLLM_PYTHON",
}
_PROFILES_ALONE = (
    *("trainer", "executor", "cpus_per_task", "memory", "exclusive", "env"),
    *("ray_port", "ray_wait_s", "ray_object_store_mib", "sandbox_partition", "sandbox_port", "sandbox_settings"),
    *("sandbox_python", "sandbox_wait_s", "kube_namespace", "kube_claim", "kube_secret", "kube_ray_version"),
    *("kube_backoff_limit", "kube_sandbox_image", "kube_sandbox_selector"),
)
VARIABLES = {
    field: _NAMES.get(field, field.upper()) for field in RunLaunchSettings.model_fields if field not in _PROFILES_ALONE
}
"""The variable of each field that has one."""
NEMO_RL_FIELDS = (
    *("sandbox_container", "nemo_rl_dir", "skip_code_snapshot", "refresh_code_snapshot", "code_snapshot_dirname"),
    *("nrl_megatron_checkpoint_dir", "megatron_config_lock_dir", "gym_venv_dir", "uv_http_timeout", "setup_command"),
    *("nrl_force_rebuild_venvs", "enable_mtp_inference", "num_speculative_tokens", "max_num_batched_tokens"),
)
"""Fields that only NeMo-RL's trainer reads."""


def variable_of(field: str) -> str:
    """The name by which a user gives the field."""
    return VARIABLES.get(field, f"`{field}` of a profile")


def variables_of(settings: RunLaunchSettings) -> dict[str, str]:
    """The settings that are not defaults as variables, which a config can read, as `${oc.env:MODEL_PATH}`."""
    values = {field: getattr(settings, field) for field in VARIABLES if field != "dry_run"}
    changed = {
        field: value for field, value in values.items() if value != RunLaunchSettings.model_fields[field].default
    }
    return {VARIABLES[field]: _as_text(value) for field, value in changed.items()}


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)
