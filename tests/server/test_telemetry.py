"""Claims about what a server shows of itself over HTTP: Prometheus counts each call once, and pages need no network."""

import json
import re
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from paddock.config import load
from paddock.http.access import bearer
from paddock.resources_servers.pivot import PivotServer
from paddock.resources_servers.pivot.server import PivotConfig
from paddock.server.access import Access
from paddock.server.app import build_app
from paddock.server.runtime import open_runtime

ROOT = Path(__file__).parents[2]
ROW = json.loads((ROOT / "resources_servers/pivot/data/example.jsonl").read_text().splitlines()[0])
CONFIG = load(
    ["resources_servers/pivot/configs/pivot.yaml"], extra={"policy_model": {"models_servers": {"replay": {}}}}
)


async def counts(client: httpx.AsyncClient, url: str) -> dict[tuple[str, ...], float]:
    """The values of all counters by their name and labels, in the labels' order."""
    reply = await client.get(f"{url}/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(reply.text)
    samples = [sample for family in families for sample in family.samples if sample.name.endswith("_total")]
    return {(sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value for sample in samples}


async def test_calls_and_outcomes_are_counted_once_however_they_came() -> None:
    async with open_runtime(CONFIG, listen=True) as runtime, httpx.AsyncClient(timeout=30) as client:
        client.headers.update(bearer(runtime.token))
        agent, pivot = (runtime.servers[name].url or "" for name in ("pivot_agent", "pivot"))
        reply = await client.post(f"{agent}/run", json=ROW)
        assert reply.json()["rollout"]["outcome"] == "infra", "a replay without a script answers nothing"
        unusable = {"responses_create_params": {"input": "q"}, "response": {"output": []}}
        wrong = await client.post(f"{pivot}/verify", json=unusable)
        assert wrong.status_code == 422
        assert (await counts(client, agent))["paddock_rollouts_total", "infra"] == 1
        assert (await counts(client, agent))["paddock_calls_total", "ok", "POST /run"] == 1
        of_pivot = await counts(client, pivot)
        assert of_pivot["paddock_calls_total", "ok", "POST /seed_session"] == 1, "the agent's own call, without HTTP"
        assert of_pivot["paddock_calls_total", "row", "POST /verify"] == 1


async def test_metrics_ask_for_the_token_where_there_is_one() -> None:
    app = build_app(PivotServer(PivotConfig(), name="pivot", peers={}), access=Access("open sesame"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://pivot") as client:
        assert (await client.get("/metrics")).status_code == 401
        allowed = await client.get("/metrics", headers={"Authorization": "Bearer open sesame"})
        assert "paddock_call_seconds" in allowed.text


async def test_the_page_of_docs_takes_nothing_from_elsewhere() -> None:
    app = build_app(PivotServer(PivotConfig(), name="pivot", peers={}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://pivot") as client:
        page = (await client.get("/docs")).text
        assets = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert len(assets) >= 2
        for asset in assets:
            assert asset.startswith("/"), asset
            assert (await client.get(asset)).status_code == 200
        assert "SwaggerUIBundle" in (await client.get("/docs/assets/swagger-ui-bundle.js")).text
