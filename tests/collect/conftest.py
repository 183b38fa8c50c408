"""Rows, configs and collections over scripted servers, for every test of collecting."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson
import pytest

from paddock.collect import CollectionResult, EvalSettings, Plan, evaluate, make_plan
from paddock.config import Config, load

SCRIPTED = "paddock.conformance.scripted"


class MakeRows(Protocol):
    def __call__(self, rows: "int | list[Any]", name: str = "rows.jsonl") -> Path: ...


class MakeConfig(Protocol):
    def __call__(
        self,
        *,
        model: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
        agent: Mapping[str, Any] | None = None,
        **top: Any,
    ) -> Config: ...


@pytest.fixture
def make_rows(tmp_path: Path) -> MakeRows:
    """A row file: N rows, two of three with the answer `yes`; or the given objects, bytes as they are."""

    def make(rows: "int | list[Any]", name: str = "rows.jsonl") -> Path:
        listed = [_row(index) for index in range(rows)] if isinstance(rows, int) else rows
        path = tmp_path / name
        path.write_bytes(b"\n".join(row if isinstance(row, bytes) else orjson.dumps(row) for row in listed) + b"\n")
        return path

    return make


@pytest.fixture
def make_config() -> MakeConfig:
    """Servers `environment`, `agent` and `policy`, all scripted but the single-step agent."""

    def make(
        *,
        model: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
        agent: Mapping[str, Any] | None = None,
        **top: Any,
    ) -> Config:
        refers = {
            "resources_server": {"type": "resources_servers", "name": "environment"},
            "model_server": {"type": "models_servers", "name": "policy"},
        }
        tree = {
            "environment": {"resources_servers": {f"{SCRIPTED}:ScriptedEnvironment": dict(environment or {})}},
            "agent": {"agents": {"single_step": {**refers, **(agent or {})}}},
            "policy": {"models_servers": {f"{SCRIPTED}:ScriptedModel": dict(model or {})}},
        }
        return load([], extra={**tree, **top})

    return make


@pytest.fixture
def make_case(make_rows: MakeRows, make_config: MakeConfig) -> Callable[..., Plan]:
    """A plan over a row file: `make_case(rows, model=..., environment=..., **settings)`."""

    def make(rows: "int | list[Any]" = 5, *, oracle: bool = False, **given: Any) -> Plan:
        servers = {key: given.pop(key) for key in ("model", "environment", "agent_block", "top") if key in given}
        agent = servers.pop("agent_block", None)
        config = make_config(agent=agent, **servers.pop("top", {}), **servers)
        settings = {"rows": [str(make_rows(rows))], "retry_wait_s": 0, **given}
        return make_plan(config, EvalSettings(**settings), oracle=oracle)

    return make


@pytest.fixture
def run_plan(tmp_path: Path) -> Callable[..., Any]:
    async def run(plan: Plan, name: str = "run", *, resume: bool = False) -> CollectionResult:
        return await evaluate(plan, tmp_path / name, resume=resume, quiet=True)

    return run


@pytest.fixture
def read_lines(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """The objects of one of a run's files."""

    def read(file: str, name: str = "run") -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in (tmp_path / name / file).read_bytes().splitlines()]

    return read


def _row(index: int) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": f"question {index}"},
        "answer": "yes" if index % 3 else "no",
        "uuid": f"row-{index}",
    }
