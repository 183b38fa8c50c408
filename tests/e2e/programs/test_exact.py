"""The proof that what real programs' rollouts export is what a real vLLM saw and sampled: exact where the program kept
its history, split where it did not.

As `tests/e2e/test_exact_vllm.py` has it for native harnesses, whose engine, log and bounds these are. A program decides
for itself what it sends back: a turn whose prompt is not the one before it, its answer and what came of it begins a
sample of its own, and nothing that was sampled is trained on twice or lost.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest
from tests.e2e import test_exact_vllm as native
from tests.e2e.programs import calc_fixture
from tests.support.real_vllm import RealVllm, real_vllm, tiny_model

from paddock.agents.swe import SweAgent
from paddock.http import RUN, Call, HttpPeer, Peer, token_for
from paddock.http.transport import make_client
from paddock.sandbox.settings import default_home
from paddock.server import ServerConfig
from paddock.testing import over
from paddock.types import REWARDED, Rollout, Row, Stamp
from paddock.types.responses import calls

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.sandbox]
ROOT = Path(__file__).resolve().parents[3]
TAUGHT = {"codex_cli": "codex", "opencode_cli": "opencode"}
"""The native harness whose tools are called as the program's are."""
ENOUGH, TURNS, MOST, AT_ONCE = 3, 5, 12, 2


@pytest.fixture(scope="module", params=["codex_cli", pytest.param("opencode_cli", marks=pytest.mark.long)])
def vllm(
    request: pytest.FixtureRequest, vllm_python: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealVllm]:
    calc_fixture.require(request.param)
    model = tiny_model(default_home(), vllm_python, ROOT, harness=TAUGHT[request.param])
    folder = tmp_path_factory.mktemp(request.param)
    with real_vllm(folder, python=vllm_python, model=model, harness=request.param) as running:
        yield running


@pytest.fixture(scope="module")
def vllm_run(vllm: RealVllm, home: Path, tmp_path_factory: pytest.TempPathFactory) -> native.VllmRun:
    rollouts = asyncio.run(_play(vllm, home))
    lines = tmp_path_factory.mktemp("played") / "rollouts.jsonl"
    lines.write_bytes(b"".join(orjson.dumps(rollout.to_wire()) + b"\n" for rollout in rollouts))
    return native.VllmRun(rollouts, vllm.calls, lines)


async def _play(vllm: RealVllm, home: Path) -> list[Rollout]:
    client = make_client()
    peers: dict[str, Peer] = {vllm.name: HttpPeer(vllm.name, client, vllm.url, token=token_for(vllm.url))}
    world = calc_fixture.CalcServer(ServerConfig(), name="world", peers=peers)
    params = {"temperature": 1.0, "max_output_tokens": 160}
    config = calc_fixture.config(vllm.harness, home, model=vllm.name, agent_max_turns=6, responses_create_params=params)
    agent = SweAgent(config, name="agent", peers=peers)
    done: list[Rollout] = []
    started = 0

    async def work(peer: Peer) -> None:
        nonlocal started
        while started < MOST and sum(len(rollout.turns) >= TURNS for rollout in done) < ENOUGH:
            started += 1
            stamp = Stamp(run_id="proof", group_id=started, group_size=1, member=0, attempt=0)
            row = Row(responses_create_params={"input": []}, stamp=stamp, task={"number": started})
            done.append(await peer.call(RUN, row, Call()))

    try:
        async with over("direct", world, agent) as found, asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work(found["agent"]))
    finally:
        await client.aclose()
    return done


def test_there_are_enough_rollouts_and_each_is_graded(vllm_run: native.VllmRun) -> None:
    assert [(one.outcome, one.failure) for one in vllm_run.rollouts if one.outcome not in REWARDED] == []
    assert sum(len(rollout.turns) >= TURNS for rollout in vllm_run.rollouts) >= ENOUGH
    assert sum(len(calls(turn.output)) for rollout in vllm_run.rollouts for turn in rollout.turns) >= ENOUGH * TURNS / 2


def test_what_is_trained_on_is_what_the_engine_was_given_and_what_it_sampled_each_once(
    vllm_run: native.VllmRun,
) -> None:
    native.test_what_is_trained_on_is_what_the_engine_was_given_and_what_it_sampled_each_once(vllm_run)


def test_a_history_that_was_kept_is_one_sample_and_one_that_was_not_is_split(vllm_run: native.VllmRun) -> None:
    """By the wire alone: a call begins a sample where its prompt continues no other call's prompt and answer."""
    begun = Counter[int]()
    tails: list[list[int]] = []
    for call in vllm_run.wire:
        continued = [tail for tail in tails if call.prompt_ids[: len(tail)] == tail]
        tails = [tail for tail in tails if tail not in continued[:1]]
        tails.append([*call.prompt_ids, *call.sampled_ids])
        begun[not continued] += 1
    samples = vllm_run.samples("branch")
    assert sorted(tails) == sorted(line.sample.ids for line in samples)
    assert begun[True] == len(samples)
    assert len(samples) < len(vllm_run.wire), "no history was kept anywhere"


def test_the_mask_holds_what_was_sampled_and_nothing_else(vllm_run: native.VllmRun) -> None:
    native.test_the_mask_holds_what_was_sampled_and_nothing_else(vllm_run)


def test_nemo_rl_would_take_each_rollout_as_it_is(vllm_run: native.VllmRun, capsys: pytest.CaptureFixture[str]) -> None:
    native.test_nemo_rl_would_take_each_rollout_as_it_is(vllm_run, capsys)


def test_the_engine_scores_each_sample_as_it_sampled_it(vllm_run: native.VllmRun, vllm: RealVllm) -> None:
    differences: list[float] = []
    with httpx.Client(base_url=vllm.engine_url, timeout=60) as client:
        for line in vllm_run.samples("branch"):
            sample = line.sample
            scores = native._scores(client, vllm.model, sample.ids)
            marked = [place for place, on in enumerate(sample.loss_mask) if on]
            differences += [abs(scores[place] - sample.log_probs[place]) for place in marked]
    assert sum(differences) / len(differences) < native.MEAN
    assert max(differences) < native.MAX
