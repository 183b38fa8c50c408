"""SglangEngine behind SGLang's routers, with a real SGLang behind them: as two workers, each a relay that counts."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from tests.support.real_sglang import RealSglang, environment, free_port
from tests.support.sglang_answers import LONG, PROMPT, answer, answer_over_new_weights

from paddock.errors import ConfigError
from paddock.models_servers.sglang.config import SglangConfig
from paddock.models_servers.sglang.engine import SglangEngine
from paddock.testing.upstream import FaultyRelay

POLICIES = {"sglang_router": "manual", "smg": "consistent_hashing"}
"""Those under which a router keeps to a worker by `X-SMG-Routing-Key`."""
START_S = 60.0


class RouterProcess(NamedTuple):
    """A router that starts."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def check(self) -> None:
        """It has not ended."""
        assert self.process.poll() is None, self.log.read_text()[-4000:]


pytestmark = [pytest.mark.trainer, pytest.mark.timeout(900)]


@contextmanager
def router_process(module: str, python: str, workers: list[FaultyRelay], log: Path) -> Iterator[RouterProcess]:
    port = free_port()
    command = [python, "-m", f"{module}.launch_router", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--policy", POLICIES[module], "--prometheus-port", str(free_port())]
    command += ["--worker-urls", *(worker.url for worker in workers)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment(), start_new_session=True)
    try:
        yield RouterProcess(f"http://127.0.0.1:{port}", process, log)
    finally:
        os.killpg(process.pid, 9)
        process.wait()


@asynccontextmanager
async def router(module: str, sglang: RealSglang, workers: list[FaultyRelay], log: Path) -> AsyncIterator[str]:
    """The URL of a router that has found its workers."""
    with router_process(module, sglang.python, workers, log) as started:
        async with httpx.AsyncClient(timeout=5) as client, asyncio.timeout(START_S):
            while not await _is_ready(client, started.url):
                started.check()
                await asyncio.sleep(0.2)
        for worker in workers:
            worker.arm()
        yield started.url


async def _is_ready(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/v1/models")).status_code == 200
    except httpx.HTTPError:
        return False


@asynccontextmanager
async def engine_of(sglang: RealSglang, url: str, **fields: object) -> AsyncIterator[SglangEngine]:
    """The router does not say how long a sequence may be."""
    config = {"model": str(sglang.models[0]), "base_url": url, "max_model_len": 4096, "first_retry_s": 0.05, **fields}
    engine = SglangEngine(SglangConfig.model_validate(config))
    try:
        await engine.start()
        yield engine
    finally:
        await engine.stop()


@pytest.mark.parametrize("module", POLICIES)
async def test_rollouts_keep_to_a_worker_and_answers_are_exact(module: str, sglang: RealSglang, tmp_path: Path) -> None:
    sglang.set_weights(0, "first")
    one, two = FaultyRelay(sglang.url), FaultyRelay(sglang.url)
    async with one, two, router(module, sglang, [one, two], tmp_path / "log") as url, engine_of(sglang, url) as engine:
        used = set()
        for rollout in map(str, range(8)):
            before = one.calls, two.calls
            for stream in (True, False, True):
                found = await answer(engine, rollout=rollout, stream=stream, max_tokens=20, ignore_eos=True)
                expected = sglang.score(sglang.models[0], PROMPT, found.ids).log_probs
                assert found.log_probs == pytest.approx(expected, abs=1e-5)
                assert [(span.version, span.end) for span in found.versions] == [("first", 20)]
            used.add((one.calls - before[0], two.calls - before[1]))
        assert used == {(3, 0), (0, 3)}
        changed = await answer_over_new_weights(engine, sglang, "abort")
    first, second = changed.versions
    assert (first.version, second.version) == ("first", "second")
    assert 0 < first.end == second.start < second.end == LONG
    for span, model in zip(changed.versions, sglang.models, strict=True):
        expected = sglang.score(model, PROMPT, changed.ids).log_probs
        assert changed.log_probs[span.start : span.end] == pytest.approx(expected[span.start : span.end], abs=1e-5)


@pytest.mark.parametrize("module", POLICIES)
async def test_experts_pass_or_the_start_says_that_they_do_not(module: str, sglang: RealSglang, tmp_path: Path) -> None:
    """sglang-router 0.3.2 drops what asks for them; smg passes it on."""
    sglang.set_weights(0, "first")
    async with FaultyRelay(sglang.url) as worker, router(module, sglang, [worker], tmp_path / "log") as url:
        if module == "sglang_router":
            with pytest.raises(ConfigError) as raised:
                async with engine_of(sglang, url, routed_experts=True):
                    pass
            assert raised.value.kind == "routed_experts_missing"
            return
        async with engine_of(sglang, url, routed_experts=True) as engine:
            found = await answer(engine, max_tokens=20, ignore_eos=True, routed_experts_start=5)
    assert found.routed_experts is not None
    assert (found.routed_experts.start, found.routed_experts.end) == (5, len(PROMPT) + 19)


async def test_a_router_that_does_not_say_how_long_a_sequence_may_be_is_refused(
    sglang: RealSglang, tmp_path: Path
) -> None:
    async with FaultyRelay(sglang.url) as worker, router("smg", sglang, [worker], tmp_path / "log") as url:
        with pytest.raises(ConfigError) as raised:
            async with engine_of(sglang, url, max_model_len=None):
                pass
    assert raised.value.kind == "max_model_len_unknown"
