"""Claims about traces: what a collector gets of a run, over the boundaries of processes, and what a dead one costs."""

import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.support.trace_collector import TraceCollector, collecting

from paddock.ports import free_port

SCRIPTED = "paddock.conformance.scripted"


@pytest.fixture
def collector() -> Iterator[TraceCollector]:
    with collecting() as collector:
        yield collector


Eval = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def paddock_eval(tmp_path: Path) -> Eval:
    """`paddock eval` with these arguments, in a process of its own, with these variables alone of OpenTelemetry's."""

    def run(*arguments: str | Path, variables: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
        env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        words = [sys.executable, "-m", "paddock", "eval", *map(str, arguments), "--quiet"]
        return subprocess.run(
            [*words, "--out", str(tmp_path / "run")], env={**env, **variables}, capture_output=True, text=True
        )

    return run


def sent_to(collector: TraceCollector, **more: str) -> dict[str, str]:
    detect = {"OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "otel,process"}
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, **detect, **more}


def lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def scripted(folder: Path, rows: list[dict[str, Any]], **model: Any) -> Path:
    """A config of scripted servers over these rows."""
    data = folder / "rows.jsonl"
    data.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    agent = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy"},
        "datasets": [{"name": "few", "type": "example", "jsonl_fpath": str(data)}],
    }
    tree = {
        "environment": {"resources_servers": {f"{SCRIPTED}:ScriptedEnvironment": {}}},
        "agent": {"agents": {"single_step": agent}},
        "policy": {"models_servers": {f"{SCRIPTED}:ScriptedModel": model}},
    }
    path = folder / "case.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def test_a_rollout_is_a_trace_of_its_stages(collector: TraceCollector, paddock_eval: Eval, tmp_path: Path) -> None:
    ended = paddock_eval("configs/demo.yaml", "--oracle", "--limit", "3", variables=sent_to(collector))
    assert ended.returncode == 0, ended.stderr
    roots = [span for span in collector.spans if not span.parent]
    assert Counter(span.name for span in roots) == {"invoke_agent pivot_agent": 3}
    for root in roots:
        children = [span for span in collector.spans if span.parent == root.id]
        assert sorted(span.name for span in children) == ["chat replay", "seed", "verify"]
    index = {(one["group_id"], one["member"]): one for one in lines(tmp_path / "run/index.jsonl")}
    for root in roots:
        given = root.attributes
        line = index[given["paddock.group.id"], given["paddock.member"]]
        assert (given["paddock.reward"], given["paddock.outcome"]) == (line["reward"], line["outcome"])
        assert given["gen_ai.operation.name"] == "invoke_agent"
        assert given["gen_ai.agent.name"] == "pivot_agent"
        assert root.error is None and root.service == "paddock"


@pytest.mark.parametrize(
    "spread", [("--isolate",), pytest.param(("--isolate", "--workers", "2"), marks=pytest.mark.slow)]
)
def test_parents_are_right_over_the_boundaries_of_processes(
    collector: TraceCollector, paddock_eval: Eval, spread: tuple[str, ...]
) -> None:
    ended = paddock_eval("configs/demo.yaml", "--oracle", "--limit", "4", *spread, variables=sent_to(collector))
    assert ended.returncode == 0, ended.stderr
    name = "invoke_agent pivot_agent"
    paths = Counter(" > ".join(collector.path(span)) for span in collector.spans)
    inside = f"{name} > POST /run > {name}"
    for path in (
        f"{inside} > seed > POST /seed_session",
        f"{inside} > POST /r/{{secret}}/v1/responses > chat replay",
        f"{inside} > verify > POST /verify",
    ):
        assert paths[path] == 4, paths
    roots = [span for span in collector.spans if not span.parent]
    assert [span.kind for span in roots if span.name == name] == ["client"] * 4
    assert len({span.trace for span in roots if span.name == name}) == 4
    for span in collector.named("POST /"):
        parent = collector.parent(span)
        assert parent is None or (parent.pid != span.pid and parent.trace == span.trace and span.kind == "server")


def test_an_outcome_that_is_no_verdict_is_an_error_with_its_owner_and_kind(
    collector: TraceCollector, paddock_eval: Eval, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = [
        {"responses_create_params": {"input": "q"}, "answer": "yes", "id": "good"},
        {"responses_create_params": {"input": "q"}, "id": "no answer"},
    ]
    paddock_eval(scripted(tmp_path, rows), variables=sent_to(collector))
    (failure,) = lines(tmp_path / "run/failures.jsonl")
    by_row = {span.attributes["paddock.row.name"]: span for span in collector.named("invoke_agent")}
    assert by_row["good"].error is None and "error.type" not in by_row["good"].attributes
    failed = by_row["no answer"]
    assert failed.attributes["error.type"] == f"{failure['owner']}.{failure['kind']}" == "row.task_invalid"
    assert failed.attributes["paddock.outcome"] == "row" and failed.error == failure["message"]
    assert "paddock.reward" not in failed.attributes
    stage = next(span for span in collector.spans if span.parent == failed.id)
    assert (stage.name, stage.attributes["error.type"]) == ("seed", "row.task_invalid")


def test_an_agent_that_is_gone_leaves_an_error_too(
    collector: TraceCollector, paddock_eval: Eval, tmp_path: Path
) -> None:
    row = {"responses_create_params": {"input": "q"}, "answer": "yes"}
    arguments = [
        "--no-serve",
        "--url",
        f"agent=http://127.0.0.1:{free_port()}",
        "eval.max_attempts=2",
        "--retry-wait-s",
        "0",
    ]
    paddock_eval(scripted(tmp_path, [row]), *arguments, variables=sent_to(collector))
    spans = collector.named("invoke_agent")
    assert [span.attributes["error.type"] for span in spans] == ["infra.connection"] * 2
    assert [span.attributes["paddock.attempt"] for span in spans] == [0, 1]


def test_no_content_and_no_secret_is_sent(collector: TraceCollector, paddock_eval: Eval, tmp_path: Path) -> None:
    row = {"responses_create_params": {"input": "the words of the prompt"}, "answer": "the words of the answer"}
    paddock_eval(scripted(tmp_path, [row]), "--isolate", variables=sent_to(collector))
    sent = b"".join(collector.bodies)
    assert b"invoke_agent" in sent
    assert not re.search(rb"ro_[0-9a-f]{8}|the words of|[Bb]earer", sent)


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_SAMPLER": "always_off"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"},
    ],
)
def test_the_standard_variables_switch_it_off(
    collector: TraceCollector, paddock_eval: Eval, tmp_path: Path, variables: dict[str, str]
) -> None:
    row = {"responses_create_params": {"input": "q"}, "answer": "yes"}
    assert paddock_eval(scripted(tmp_path, [row]), variables=sent_to(collector, **variables)).returncode == 0
    assert collector.spans == []


def test_the_service_has_the_name_that_the_variables_say(
    collector: TraceCollector, paddock_eval: Eval, tmp_path: Path
) -> None:
    row = {"responses_create_params": {"input": "q"}, "answer": "yes"}
    variables = sent_to(collector, OTEL_RESOURCE_ATTRIBUTES="service.name=mine,team=a")
    paddock_eval(scripted(tmp_path, [row]), variables=variables)
    assert {span.service for span in collector.spans} == {"mine"}


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["refuses", "is silent"])
def test_a_dead_collector_costs_its_spans_and_nothing_else(paddock_eval: Eval, tmp_path: Path, problem: str) -> None:
    row = {"responses_create_params": {"input": "q"}, "answer": "yes"}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = free_port() if problem == "refuses" else silent.getsockname()[1]
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        ended = paddock_eval(scripted(tmp_path, [row] * 50), variables=variables)
    assert ended.returncode == 0, ended.stderr
    assert len(lines(tmp_path / "run/rollouts.jsonl")) == 50
    assert lines(tmp_path / "run/failures.jsonl") == []
    assert len(ended.stderr.splitlines()) <= 1 and "Traceback" not in ended.stderr


def test_the_end_of_a_process_waits_two_seconds_at_most_for_a_collector() -> None:
    probe = (
        "import atexit, time, paddock.tracing as tracing\n"
        "atexit.register(lambda: print(time.monotonic() - ended))\n"
        "with tracing.span('x'): pass\n"
        "ended = time.monotonic()"
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        done = subprocess.run([sys.executable, "-c", probe], env=env, capture_output=True, text=True, check=True)
    assert 1.9 < float(done.stdout) < 3.5


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, ("exporter 'jaeger'", "otlp_proto_http")),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "9999"},
            ("no traces are sent: max_export_batch_size must be",),
        ),
    ],
)
def test_a_slip_in_a_variable_is_a_line_and_no_reason_to_fail(
    paddock_eval: Eval, tmp_path: Path, variables: dict[str, str], said: tuple[str, ...]
) -> None:
    row = {"responses_create_params": {"input": "q"}, "answer": "yes"}
    ended = paddock_eval(scripted(tmp_path, [row]), variables=variables)
    assert ended.returncode == 0
    assert (tmp_path / "run" / "failures.jsonl").read_text() == ""
    assert ended.stderr.count("no traces are sent") == 1
    assert all(words in ended.stderr for words in said)


def test_nothing_of_it_is_imported_where_no_variable_asks() -> None:
    probe = (
        "import sys, paddock.tracing as tracing\n"
        "with tracing.span('x', attributes={'a': 1}) as span: span.note({'b': 2})\n"
        "assert tracing.inject({}) == {}\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    assert subprocess.run([sys.executable, "-c", probe], env=env, capture_output=True, text=True).stdout == "[]\n"
