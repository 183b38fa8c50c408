"""The server over a real SGLang: what every model server does, and how exact harnesses' tokens are."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.support.forced_sglang import ForcedSglang, processor_text
from tests.support.real_sglang import RealSglang

from paddock.conformance import BehaviourResult, ServerTarget, run_suite, suite_for
from paddock.lab.fidelity import find_scenarios, find_subjects, language, report
from paddock.lab.fidelity.bench import LoggedEngine
from paddock.models_servers.function.server import FunctionServer
from paddock.models_servers.sglang import SglangServer
from paddock.server import Server
from paddock.server.exact.functions import registered
from paddock.training.slime.engine import router_engine
from paddock.types import JsonObject

pytestmark = [pytest.mark.trainer, pytest.mark.timeout(900)]


async def results(name: str, server: type[Server[Any]], block: JsonObject) -> list[BehaviourResult]:
    target = ServerTarget("models_servers", name, server, block, [])
    return await run_suite(suite_for(target.kind), target)


async def test_it_passes_every_behaviour(sglang: RealSglang) -> None:
    """Also with experts recorded."""
    sglang.set_weights(0, "first")
    block = {
        "base_url": sglang.url,
        "model": str(sglang.models[0]),
        "sampling_overrides": sglang.stopping,
        "routed_experts": True,
    }
    found = await results("sglang", SglangServer, block)
    assert [result for result in found if result.outcome != "passed"] == []
    assert len(found) >= 30


async def test_a_trainers_engine_function_over_it_passes_every_behaviour(sglang: RealSglang) -> None:
    """slime's, which the function server asks."""
    sglang.set_weights(0, "first")
    url = httpx.URL(sglang.url)
    args = SimpleNamespace(sglang_router_ip=url.host, sglang_router_port=url.port, num_layers=2, moe_router_topk=2)
    args.rollout_max_response_len, args.rollout_stop_token_ids = 64, None

    async def post(url: str, body: JsonObject, headers: Any) -> JsonObject:
        body["sampling_params"] |= {"min_new_tokens": 8, "logit_bias": sglang.stopping["logit_bias"]}
        async with httpx.AsyncClient() as client:
            reply = await client.post(url, json=body, headers=headers, timeout=60)
        reply.raise_for_status()
        answer: JsonObject = reply.json()
        return answer

    registration = registered(router_engine(args, post, lambda: False))
    block = {"function": registration.name, "tokenizer": str(sglang.models[0]), "routed_experts": True}
    try:
        found = await results("function", FunctionServer, block)
    finally:
        registration.close()
    rest = [result for result in found if result.outcome != "passed"]
    assert {result.outcome for result in rest} == {"skipped"}
    assert all("has no upstream" in result.detail for result in rest)
    assert len(found) - len(rest) >= 27


async def test_fidelity_is_what_it_is_over_a_scripted_engine(sglang: RealSglang, tmp_path: Path) -> None:
    """SGLang says what the scenario says; each id and log-prob of a sample is in the log of what went to SGLang and
    came from it."""
    sglang.set_weights(0, "first")
    make = partial(ForcedSglang, sglang.url, str(sglang.models[0]), processor_text(sglang.python))

    def forced(_language: Any, policy: Any) -> LoggedEngine:
        return make(policy)

    subjects = find_subjects(["codex", "codeact", "opencode", "client:claude_code"])
    over, scenarios = [language("thinking")], find_scenarios()
    found = await report(subjects, over, scenarios, make_engine=forced)
    expected = await report(subjects, over, scenarios)
    for one, other in zip(found.combinations, expected.combinations, strict=True):
        assert [run.problem for run in one.runs] == [None] * len(one.runs)
        assert (one.subject, one.verdict, one.runs) == (other.subject, other.verdict, other.runs)
    assert {one.verdict for one in found.combinations} <= {"exact", "split"}
