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
from paddock.sandbox.leases import lease
from paddock.server.access import Access
from paddock.server.app import build_app
from paddock.server.runtime import open_runtime
from paddock.server.telemetry import Telemetry
from paddock.testing.upstream import ScriptedAnswer, ScriptedUpstream

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
        assert (await counts(client, agent))["paddock_rollouts_total", "infra", "pivot_agent"] == 1
        assert (await counts(client, agent))["paddock_calls_total", "ok", "POST /run", "pivot_agent"] == 1
        of_pivot = await counts(client, pivot)
        assert of_pivot["paddock_calls_total", "ok", "POST /seed_session", "pivot"] == 1, (
            "the agent's own call, without HTTP"
        )
        assert of_pivot["paddock_calls_total", "row", "POST /verify", "pivot"] == 1


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


async def test_a_model_server_counts_tokens_of_streams_too_and_each_answer_once() -> None:
    async with ScriptedUpstream(ScriptedAnswer("one two three")) as upstream:
        given = {"policy_base_url": upstream.url, "policy_api_key": "none", "policy_model_name": "scripted"}
        config = load(["models_servers/openai/configs/openai.yaml"], extra=given)
        async with open_runtime(config, listen=True) as runtime, httpx.AsyncClient(timeout=30) as client:
            client.headers.update(bearer(runtime.token))
            model = runtime.servers["policy_model"].url or ""
            body = {"model": "m", "input": "q"}
            usage = (await client.post(f"{model}/v1/responses", json=body)).json()["usage"]
            once = await counts(client, model)
            assert once["paddock_tokens_total", "output", "policy_model"] == usage["output_tokens"] > 0
            for _ in range(2):  # the second is answered from the record
                async with client.stream(
                    "POST", f"{model}/r/ro_{'0' * 32}/v1/responses", json=body | {"stream": True}
                ) as reply:
                    assert (await reply.aread()).endswith(b"\n\n")
            twice = await counts(client, model)
            assert twice["paddock_tokens_total", "output", "policy_model"] == 2 * usage["output_tokens"]
            assert twice["paddock_engine_calls_total", "ok", "policy_model"] == 2


class TwoSandboxes:
    """A provider, as far as the metric looks at it."""

    def live(self) -> list[str]:
        return ["a", "b"]


async def test_sandboxes_of_the_process_are_counted_while_their_provider_is_held() -> None:
    async def make() -> TwoSandboxes:
        return TwoSandboxes()

    async def close(_: TwoSandboxes) -> None:
        return None

    telemetry = Telemetry(PivotServer(PivotConfig(), name="pivot", peers={}))
    holders = [await lease("two", make, close) for _ in range(2)]
    assert b"paddock_sandboxes 2.0" in telemetry.exposition()
    for holder in holders:
        await holder.release()
    assert b"paddock_sandboxes 0.0" in telemetry.exposition()
