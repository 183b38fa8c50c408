"""`task.toml` of Harbor, schema 1.x: its fields by Harbor 0.25's own names and defaults, and what of them runs here.

Source  harbor 0.25.0, `models/task/config.py`. Keys that it does not have are named and change nothing, as there.
Errors  RowError `harbor_invalid` for a file that does not validate; `harbor_refused` for several steps, GPUs, MCP
        servers, health checks, other users, Windows, host variables and networks that are neither public nor none.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paddock.errors import RowError, describe
from paddock.resources_servers.harbor.task import (
    ImageRecipe,
    Network,
    PublishedTask,
    SolutionFiles,
    files_below,
    refused,
)
from paddock.types import JsonObject

LOGS = "/logs"
TESTS = "/tests"
SOLUTION = "/solution"
PUBLISHED_ARTIFACTS = "/logs/artifacts"
"""What is carried into a verifier's own box in any case."""
_ROOT = (None, "root", 0, "0")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SIZES = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}


class TomlBlock(BaseModel):
    """A block of the file; unknown keys are looked for by `_unknown`."""

    model_config = ConfigDict(frozen=True, extra="allow")


class ArtifactEntry(TomlBlock):
    source: str
    destination: str | None = None
    """Where Harbor's runner keeps it; in a verifier's box it is at `source`."""
    exclude: list[str] = []
    service: str | None = None


class PhaseBlock(TomlBlock):
    """What the agent's and the verifier's blocks share."""

    timeout_sec: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    user: str | int | None = None
    network_mode: Literal["public", "no-network", "allowlist"] | None = None
    allowed_hosts: list[str] | None = None


class EnvironmentBlock(TomlBlock):
    network_mode: Literal["public", "no-network", "allowlist"] = "public"
    allowed_hosts: list[str] | None = None
    build_timeout_sec: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    docker_image: str | None = None
    os: str = "linux"
    cpus: float | None = None
    memory_mb: int | None = Field(default=None, gt=0)
    memory: str | None = None
    """The older form: `2G`."""
    storage_mb: int | None = None
    storage: str | None = None
    gpus: int | None = None
    gpu_types: list[str] | None = None
    tpu: JsonObject | None = None
    mcp_servers: list[JsonObject] = []
    env: dict[str, str] = {}
    skills_dir: str | None = None
    healthcheck: JsonObject | None = None
    workdir: str | None = None
    allow_internet: bool | None = None


class VerifierBlock(PhaseBlock):
    env: dict[str, str] = {}
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentBlock | None = None
    collect: list[JsonObject] = []


class SolutionBlock(TomlBlock):
    env: dict[str, str] = {}


class TaskToml(TomlBlock):
    """The whole file."""

    schema_version: str = "1.4"
    version: str | None = None
    """The older name of `schema_version`."""
    task: JsonObject | None = None
    metadata: JsonObject = {}
    verifier: VerifierBlock = VerifierBlock()
    agent: PhaseBlock = PhaseBlock()
    environment: EnvironmentBlock = EnvironmentBlock()
    solution: SolutionBlock = SolutionBlock()
    source: str | None = None
    multi_step_reward_strategy: str | None = None
    steps: list[JsonObject] | None = None
    artifacts: list[str | ArtifactEntry] = []


def read_task_toml(folder: Path) -> PublishedTask:
    """Read the task of a folder that has a `task.toml`."""
    path = folder / "task.toml"
    try:
        raw = tomllib.loads(path.read_text())
        file = TaskToml.model_validate(raw)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        why = describe(error) if isinstance(error, ValidationError) else str(error)
        raise RowError(f"{path}: {why}", kind="harbor_invalid", stage="seed") from error
    _refuse(path, folder, file)
    environment, verifier = file.environment, file.verifier
    separate = verifier.environment_mode == "separate" or (
        verifier.environment_mode is None and verifier.environment is not None
    )
    verifier_image = _verifier_image(folder, verifier) if separate else None
    tests = [] if verifier_image else files_below(folder / "tests", TESTS)
    if not (verifier_image or (folder / "tests" / "test.sh").is_file()):
        raise refused(folder, "tests/test.sh is missing")
    entries = [ArtifactEntry(source=entry) if isinstance(entry, str) else entry for entry in file.artifacts]
    for entry in entries:
        if entry.service not in (None, "main"):
            raise refused(path, f"artifacts: of the service {entry.service!r}: one container alone is run")
    return PublishedTask(
        name=str((file.task or {}).get("name") or folder.name),
        instruction=_text(folder / "instruction.md"),
        image=_image(folder, environment),
        workdir=environment.workdir,
        env=_resolved(path, "environment.env", environment.env),
        network=_network(path, file),
        memory_mib=_memory_mib(path, environment),
        agent_timeout_s=file.agent.timeout_sec,
        tests_timeout_s=verifier.timeout_sec or 600.0,
        tests=tests,
        tests_argv=[f"{TESTS}/test.sh"],
        tests_env=_resolved(path, "verifier.env", verifier.env),
        parser=None,
        separate=separate,
        verifier_image=verifier_image,
        artifacts=[entry.source for entry in entries],
        exclude=[pattern for entry in entries for pattern in entry.exclude],
        solution=_solution(path, folder, file),
        unknown_keys=sorted(_unknown(file)),
    )


def _refuse(path: Path, folder: Path, file: TaskToml) -> None:
    """Raise RowError where the task needs what there is not."""
    environment, verifier = file.environment, file.verifier
    boxes = [environment, *([verifier.environment] if verifier.environment else [])]
    reasons = {
        "steps: several steps with a verdict each are not run": bool(file.steps),
        "environment/docker-compose.yaml: several containers are not run": any(
            (folder / name / "docker-compose.yaml").exists() for name in ("environment", "tests")
        ),
        "environment.os: Linux alone is run": any(box.os.lower() != "linux" for box in boxes),
        "environment.gpus, tpu: sandboxes have none": any(box.gpus or box.tpu for box in boxes),
        "environment.mcp_servers: harnesses here reach no MCP server of a task": any(box.mcp_servers for box in boxes),
        "environment.healthcheck: nothing is started in an environment that it could wait for": any(
            box.healthcheck for box in boxes
        ),
        "agent.user, verifier.user: a sandbox has one user, root": any(
            block.user not in _ROOT for block in (file.agent, verifier)
        ),
        "verifier.collect: commands between agent and verifier are not run": bool(verifier.collect),
    }
    for reason, holds in reasons.items():
        if holds:
            raise refused(path, reason)


def _network(path: Path, file: TaskToml) -> Network:
    environment = file.environment
    modes = [file.agent.network_mode, file.verifier.network_mode]
    if environment.allow_internet is None:
        modes.append(environment.network_mode)
    else:
        modes.append("public" if environment.allow_internet else "no-network")
    if "allowlist" in modes:
        raise refused(path, "network_mode `allowlist`: a sandbox reaches no host but its model")
    return "public" if "public" in modes else "none"


def _memory_mib(path: Path, environment: EnvironmentBlock) -> int | None:
    if environment.memory_mb is not None or environment.memory is None:
        return environment.memory_mb
    text = environment.memory.strip().upper()
    try:
        return int(float(text[:-1]) * _SIZES[text[-1:]])
    except (KeyError, ValueError, OverflowError) as error:
        raise RowError(f"{path}: environment.memory: {text!r} is no size", kind="harbor_invalid") from error


def _image(folder: Path, environment: EnvironmentBlock) -> ImageRecipe:
    context = folder / "environment"
    has_dockerfile = (context / "Dockerfile").is_file()
    if environment.docker_image is None and not has_dockerfile:
        raise refused(folder, "neither environment.docker_image nor environment/Dockerfile")
    if has_dockerfile:
        build_s, workdir = environment.build_timeout_sec, environment.workdir
        return ImageRecipe(environment.docker_image, context, build_s, workdir=workdir)
    has_files = context.is_dir() and any(context.iterdir())
    return ImageRecipe(environment.docker_image, files=context if has_files else None, workdir=environment.workdir)


def _verifier_image(folder: Path, verifier: VerifierBlock) -> ImageRecipe | None:
    environment = verifier.environment or EnvironmentBlock()
    if environment.docker_image is not None:
        return ImageRecipe(environment.docker_image)
    if (folder / "tests" / "Dockerfile").is_file():
        return ImageRecipe(None, folder / "tests", environment.build_timeout_sec)
    return None


def _solution(path: Path, folder: Path, file: TaskToml) -> SolutionFiles | None:
    if not (folder / "solution" / "solve.sh").is_file():
        return None
    env = _resolved(path, "solution.env", file.solution.env)
    argv = ["/bin/sh", "-c", f"chmod +x {SOLUTION}/solve.sh && exec {SOLUTION}/solve.sh"]
    return SolutionFiles(files_below(folder / "solution", SOLUTION), argv, {"DEBIAN_FRONTEND": "noninteractive", **env})


def _resolved(path: Path, key: str, env: dict[str, str]) -> dict[str, str]:
    """Replace `${NAME:-default}` by the default: no variable of this machine's goes into a sandbox."""

    def default(match: re.Match[str]) -> str:
        if match[2] is None:
            raise refused(path, f"{key}: {match[0]} is a variable of the host; none goes into a sandbox")
        return match[2]

    return {name: _VARIABLE.sub(default, value) for name, value in env.items()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise RowError(f"{path}: {error}", kind="harbor_invalid", stage="seed") from error


def _unknown(block: TomlBlock, where: str = "") -> list[str]:
    keys = [f"{where}{name}" for name in block.model_extra or {}]
    for name in type(block).model_fields:
        value: Any = getattr(block, name)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, TomlBlock):
                keys += _unknown(part, f"{where}{name}.")
    return keys
