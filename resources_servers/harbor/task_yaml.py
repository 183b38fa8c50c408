"""`task.yaml` of Terminal-Bench: the form before Harbor's. Its verdict is read from what the tests write.

Source  terminal-bench 0.2.18, `handlers/trial_handler.py`; folders as published: Dockerfile, docker-compose.yaml,
        run-tests.sh, tests/, solution.sh. A task is solved where every test that its parser finds has passed.
Errors  RowError `harbor_invalid`, and `harbor_refused` for several services, volumes that bring files in, an unknown
        parser and tests that want the agent's own shell.
"""

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paddock.errors import RowError, describe
from paddock.resources_servers.harbor.parsers import PARSERS
from paddock.resources_servers.harbor.task import (
    ImageRecipe,
    PublishedTask,
    SolutionFiles,
    TaskFile,
    files_below,
    refused,
)

TESTS = "/tests"
_OF_THE_RUNNER = re.compile(r"\$\{T_BENCH_[A-Z_]+\}:\$\{T_BENCH_[A-Z_]+\}")
"""A volume for the runner's own logs."""
_VALUES = {"T_BENCH_TEST_DIR": TESTS, "T_BENCH_CONTAINER_LOGS_PATH": "/logs"}


class TaskYaml(BaseModel):
    """The fields that are read; a file has more, about its author and its difficulty."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    instruction: str
    descriptions: list[dict[str, str]] = []
    """Texts by `key`; `instruction` may be one of the keys."""
    parser_name: str = "pytest"
    max_agent_timeout_sec: float = Field(default=360.0, gt=0, allow_inf_nan=False)
    max_test_timeout_sec: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    run_tests_in_same_shell: bool = False


class ComposeService(BaseModel):
    """What is read of a service in `docker-compose.yaml`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    environment: dict[Any, Any] | list[Any] | None = None
    working_dir: str | None = None
    volumes: list[Any] | None = None
    privileged: Any = None
    cap_add: Any = None
    devices: Any = None


class ComposeFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    services: dict[Any, ComposeService] | None = None


def read_task_yaml(folder: Path) -> PublishedTask:
    """Read the task of a folder that has a `task.yaml`."""
    path = folder / "task.yaml"
    try:
        file = TaskYaml.model_validate(yaml.safe_load(path.read_text()))
    except (yaml.YAMLError, UnicodeDecodeError, ValidationError) as error:
        why = describe(error) if isinstance(error, ValidationError) else str(error)
        raise RowError(f"{path}: {why}", kind="harbor_invalid", stage="seed") from error
    if file.parser_name not in PARSERS:
        raise refused(path, f"parser_name {file.parser_name!r}: there are {', '.join(PARSERS)}")
    if not (folder / "run-tests.sh").is_file():
        raise refused(folder, "run-tests.sh is missing")
    env, workdir = _service(folder / "docker-compose.yaml")
    script = folder / "run-tests.sh"
    tests = [file for file in files_below(folder / "tests", TESTS) if file.path != f"{TESTS}/run-tests.sh"]
    return PublishedTask(
        name=folder.name,
        instruction=_instruction(file),
        image=ImageRecipe(None, folder),
        workdir=workdir,
        env=env,
        network="public",
        memory_mib=None,
        agent_timeout_s=file.max_agent_timeout_sec,
        tests_timeout_s=file.max_test_timeout_sec,
        tests=[*tests, TaskFile(script, f"{TESTS}/run-tests.sh", executable=True)],
        tests_argv=["bash", f"{TESTS}/run-tests.sh"],
        tests_env={"TEST_DIR": TESTS},
        parser=file.parser_name,
        separate=False,
        verifier_image=None,
        artifacts=[],
        exclude=[],
        solution=_solution(folder),
        unknown_keys=[],
    )


def _instruction(file: TaskYaml) -> str:
    texts = {text.get("key"): text.get("description", "") for text in file.descriptions}
    return texts.get(file.instruction) or file.instruction


def _solution(folder: Path) -> SolutionFiles | None:
    script = folder / "solution.sh"
    if not script.is_file():
        return None
    path = "/oracle/solution.sh"
    return SolutionFiles([TaskFile(script, path, executable=True)], ["bash", path], {})


def _service(path: Path) -> tuple[dict[str, str], str | None]:
    """Return the environment and the workdir of the only service; RowError where the file asks for more."""
    if not path.is_file():
        return {}, None
    try:
        services = ComposeFile.model_validate(yaml.safe_load(path.read_text()) or {}).services or {}
    except (yaml.YAMLError, UnicodeDecodeError, ValidationError) as error:
        why = describe(error) if isinstance(error, ValidationError) else str(error)
        raise RowError(f"{path}: {why}", kind="harbor_invalid", stage="seed") from error
    if len(services) != 1:
        raise refused(path, f"several containers are not run: {', '.join(map(str, services)) or 'none'}")
    (service,) = services.values()
    if service.privileged or service.cap_add or service.devices:
        raise refused(path, "rights beyond a sandbox's: privileged, cap_add or devices")
    for volume in service.volumes or []:
        if not isinstance(volume, str) or not _OF_THE_RUNNER.fullmatch(volume.strip()):
            raise refused(path, f"a volume that brings files of the host in: {volume}")
    given = service.environment or {}
    pairs = given.items() if isinstance(given, dict) else (str(entry).partition("=")[::2] for entry in given)
    env = {
        str(name): re.sub(r"\$\{(\w+)\}", lambda match: _VALUES.get(match[1], ""), str(value)) for name, value in pairs
    }
    return env, service.working_dir
