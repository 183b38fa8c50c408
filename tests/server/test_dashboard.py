"""Claims about the dashboard and the page of metrics: they name what servers and nodes really show after a run."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from paddock.collect.lines import to_line
from paddock.collect.results import RolloutResult
from paddock.config import load
from paddock.http.access import bearer
from paddock.sandbox.admission import AdmissionSettings
from paddock.sandbox.remote.room import FreeRoom, NodeRoom
from paddock.sandbox_server.telemetry import NodeTelemetry
from paddock.server.runtime import open_runtime
from paddock.testing.upstream import ErrorStatus, ScriptedAnswer, ScriptedUpstream, first
from paddock.viewer.web import Catalog
from paddock.viewer.web.exposition import exposition

ROOT = Path(__file__).parents[2]
ROWS = (ROOT / "resources_servers/pivot/data/example.jsonl").read_text().splitlines()
DASHBOARD = json.loads((ROOT / "src/paddock/server/grafana.json").read_text())
PAGE = (ROOT / "docs/telemetry.md").read_text()
METRIC = re.compile(r"\b((?:paddock|process)_[a-z_]+)(?:\{([^}]*)\})?")
BY = re.compile(r"\b(?:by|on|ignoring|group_left) \(([a-z, ]+)\)")
OF_PROMETHEUS = {"instance", "job"}

Shown = dict[str, set[str]]


def labels_by_name(*texts: str) -> Shown:
    shown: Shown = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                shown.setdefault(sample.name, set()).update(sample.labels)
    return shown


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Shown]:
    """What an agent, its environment and its model show after a verdict and a failure, and a node."""
    async with ScriptedUpstream(ScriptedAnswer("ok"), faults=first(1, ErrorStatus(400))) as upstream:
        config = load(
            ["resources_servers/pivot/configs/pivot.yaml", "models_servers/openai/configs/openai.yaml"],
            extra={"policy_base_url": upstream.url, "policy_api_key": "none", "policy_model_name": "scripted"},
        )
        async with open_runtime(config, listen=True) as runtime, httpx.AsyncClient(timeout=30) as client:
            client.headers.update(bearer(runtime.token))
            agent = runtime.servers["pivot_agent"].url
            outcomes = [
                (await client.post(f"{agent}/run", json=json.loads(row))).json()["rollout"]["outcome"]
                for row in ROWS[:2]
            ]
            assert outcomes == ["infra", "completed"]
            pages = [(await client.get(f"{server.url}/metrics")).text for server in runtime.servers.values()]
    node = NodeTelemetry()
    await node.counted("POST /v1/sandboxes", _nothing)
    admission = AdmissionSettings(memory_mib=1, cores=1)
    room = NodeRoom(admission=admission, free=FreeRoom.of(admission.total()))
    run = tmp_path / "runs" / "training"
    run.mkdir(parents=True)
    (run / "rollouts.jsonl").write_bytes(b"")
    (run / "index.jsonl").write_bytes(
        to_line(RolloutResult(group_id=0, member=0, agent="a", outcome="completed", reward=1))
    )
    (run / "metrics.jsonl").write_bytes(b'{"step":1,"metrics":{"train/kl":0.5,"train/nan":null}}\n{"step":2,')
    of_runs = exposition(Catalog([run.parent])).decode()
    assert 'paddock_run_metric{name="train/kl",run="runs/training"} 0.5' in of_runs
    assert 'paddock_run_rollouts{kind="training",outcome="completed",run="runs/training"} 1.0' in of_runs
    yield labels_by_name(*pages, node.exposition(sandboxes=1, clients=1, room=room).decode(), of_runs)


async def _nothing() -> None:
    return None


def expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


async def test_each_metric_and_label_of_the_dashboard_is_shown_by_a_server_or_a_node(shown: Shown) -> None:
    asked = list(expressions())
    assert len(asked) > 15
    for expression in asked:
        names = METRIC.findall(expression)
        assert names, expression
        known = {"le"} | OF_PROMETHEUS
        for name, matchers in names:
            assert name in shown, f"{name} of {expression}"
            assert set(re.findall(r"([a-z_]+)(?:=~|!=|=)", matchers)) <= shown[name], expression
            known |= shown[name]
        for group in BY.findall(expression):
            assert set(group.split(", ")) <= known, expression
    variable = DASHBOARD["templating"]["list"][1]["query"]["query"]
    name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable).groups()  # type: ignore[union-attr]
    assert label in shown[name]


async def test_each_metric_of_ours_is_on_the_page_with_its_labels(shown: Shown) -> None:
    rows = dict(re.findall(r"^\| `(paddock_\w+)` \|([^|]*)\|", PAGE, re.MULTILINE))
    ours = [name for name in shown if name.startswith("paddock_") and not name.endswith("_created")]
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in ours}
    assert families == set(rows)
    for name, cell in rows.items():
        labels = set().union(*(shown[one] for one in ours if one.startswith(name)))
        assert labels - {"le"} == set(re.findall(r"`(\w+)`", cell)), name
