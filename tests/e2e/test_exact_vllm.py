"""The proof that what is exported for training is what a real vLLM saw and sampled, token by token.

Rollouts of each native harness in real sandboxes, several at once, against our model server over a vLLM that it
launched, whose tiny model calls the harness's tools. Between the two a log writes down every generation that goes over
the wire. It shares nothing with our record.

Ids     exact: what samples train on is, call by call, what the log has, each once.
Scores  the same engine scores each whole sample again, all of it as one prompt and nothing of it from its prefix cache.
        Log-probs at sampled positions, float32 on a CPU, 4,000 to 6,300 of them for each harness, differ by 2.2e-8 on
        average and 3.6e-6 at most, whether rollouts had the prefix cache or not. With attention over the whole prompt
        and a model less sure of its answers, 4,000 of them, it was 8.6e-7 and 1.6e-5. Asked are MEAN and MAX; after a
        prompt that is another one it is more than a hundred times MAX.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
import pytest
from pydantic import BaseModel, ConfigDict
from tests.support.real_vllm import RealVllm
from tests.support.wire_log import WireCall

from paddock.agents.swe import SweAgent
from paddock.agents.swe.config import SweAgentConfig
from paddock.cli import main
from paddock.http import RUN, Call, HttpPeer, Peer, token_for
from paddock.http.transport import make_client
from paddock.sandbox import SandboxError, SandboxLimits, SandboxSettings
from paddock.server import ResourcesServer, ServerConfig
from paddock.testing import over
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.tokens.export import Mode, RolloutSample
from paddock.types import REWARDED, JsonObject, Rollout, Row, Session, Stamp, Verdict
from paddock.types.responses import calls, output_items

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.sandbox]
ENOUGH, TURNS = 20, 5
MOST = 60
"""Rollouts of a harness, until there are enough of TURNS turns or more."""
AT_ONCE = 6
MEAN, MAX = 2e-6, 1e-4
FILES = {"calc.py": "def add(a, b):\n    return a - b\n", "README.md": "A calculator.\n", "setup.py": "x = 1\n"}


class ExactTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int


class ExactEnvironment(ResourcesServer[ServerConfig, ExactTask]):
    """The same small repository for all; each rollout's text is its own."""

    task_type = ExactTask

    async def seed_session(self, task: ExactTask, row: Row) -> Session:
        said = f"Number {task.number}: add(1, {task.number}) gives {1 - task.number}."
        visible = {"instance_id": f"calc-{task.number}", "problem_statement": said}
        return Session(image="calc", workdir=WORKDIR, visible=visible)

    async def verify(self, task: ExactTask, row: Row, response: JsonObject) -> Verdict:
        return Verdict(reward=float(bool(response["model_patch"])), reason="changed")


class VllmRun(NamedTuple):
    """What was done, and what went over the wire meanwhile."""

    rollouts: list[Rollout]
    wire: list[WireCall]
    lines: Path
    """All rollouts, a line each."""

    def samples(self, mode: Mode) -> list[RolloutSample]:
        """As the command writes them."""
        out = self.lines.with_name(f"{mode}.jsonl")
        assert main(["samples", str(self.lines), "--mode", mode, "--out", str(out)]) == 0
        return [RolloutSample.from_wire(orjson.loads(line)) for line in out.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def vllm_run(harness_vllm: RealVllm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmRun]:
    with sandbox_home() as home:
        try:
            repository_image(store_of(home), "calc", FILES)
        except (FileNotFoundError, SandboxError) as error:
            pytest.skip(str(error))
        rollouts = asyncio.run(_play(harness_vllm, home))
    lines = tmp_path_factory.mktemp("played") / "rollouts.jsonl"
    lines.write_bytes(b"".join(orjson.dumps(rollout.to_wire()) + b"\n" for rollout in rollouts))
    yield VllmRun(rollouts, harness_vllm.calls, lines)


async def _play(vllm: RealVllm, home: Path) -> list[Rollout]:
    client = make_client()
    peers: dict[str, Peer] = {vllm.name: HttpPeer(vllm.name, client, vllm.url, token=token_for(vllm.url))}
    world = ExactEnvironment(ServerConfig(), name="world", peers=peers)
    agent = SweAgent(_config(vllm, home), name="agent", peers=peers)
    try:
        async with over("direct", world, agent) as found:
            return await _enough(found["agent"], count(1))
    finally:
        await client.aclose()


def _config(vllm: RealVllm, home: Path) -> SweAgentConfig:
    return SweAgentConfig(
        resources_server={"type": "resources_servers", "name": "world"},
        model_server={"type": "models_servers", "name": vllm.name},
        harness=vllm.harness,
        agent_max_turns=6,
        command_timeout_s=10,
        responses_create_params={"temperature": 1.0, "max_output_tokens": 160},
        sandbox=SandboxSettings(home=home, runtime="bubblewrap"),
        limits=SandboxLimits(memory_mib=512),
    )


async def _enough(agent: Peer, numbers: Iterator[int]) -> list[Rollout]:
    done: list[Rollout] = []
    started = 0

    async def work() -> None:
        nonlocal started
        while started < MOST and sum(len(rollout.turns) >= TURNS for rollout in done) < ENOUGH:
            started += 1
            number = next(numbers)
            stamp = Stamp(run_id="proof", group_id=number, group_size=1, member=0, attempt=0)
            row = Row(responses_create_params={"input": []}, stamp=stamp, task={"number": number})
            done.append(await agent.call(RUN, row, Call()))

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    return done


def test_there_are_enough_rollouts_with_failing_and_with_parallel_calls(vllm_run: VllmRun) -> None:
    rollouts = vllm_run.rollouts
    assert [rollout for rollout in rollouts if rollout.outcome not in REWARDED] == []
    assert sum(len(rollout.turns) >= TURNS for rollout in rollouts) >= ENOUGH
    turn_calls = [calls(turn.output) for rollout in rollouts for turn in rollout.turns]
    assert any(len(one) > 1 for one in turn_calls)
    malformed = Counter[str]()
    for rollout in rollouts:
        assert rollout.response is not None
        malformed.update(rollout.response["harness"]["malformed"])
    # Most of what it calls is what there is to be called.
    assert malformed["unknown_tool"] < sum(map(len, turn_calls)) / 2
    assert any(_failed(rollout) for rollout in rollouts)


def _failed(rollout: Rollout) -> bool:
    """Whether a command of it did."""
    results = [item for item in output_items(rollout.response) if item["type"] == "function_call_output"]
    return any(sign in str(item["output"]) for sign in ("code 1", "command not found") for item in results)


def test_what_is_trained_on_is_what_the_engine_was_given_and_what_it_sampled_each_once(vllm_run: VllmRun) -> None:
    on_the_wire = Counter(_key(call.prompt_ids, call.sampled_ids, call.log_probs) for call in vllm_run.wire)
    exported = Counter(
        _key(sample.ids[: span.start], sample.ids[span.start : span.end], sample.log_probs[span.start : span.end])
        for sample in (line.sample for line in vllm_run.samples("branch"))
        for span in sample.spans
        if span.trained
    )
    assert all(times == 1 for times in on_the_wire.values())
    assert exported == on_the_wire
    for call in vllm_run.wire:
        assert call.of_ids == call.sampled_ids
        assert call.finish_reason is not None
        assert call.sampling["temperature"] == 1


def _key(prompt: Sequence[int], sampled: Sequence[int], log_probs: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    return (tuple(prompt), tuple(sampled), tuple(log_probs))


def test_each_rollout_is_one_sample_that_only_ever_grew(vllm_run: VllmRun) -> None:
    """The wire alone says so too: each prompt but a rollout's first begins with another call's prompt and answer."""
    branches, whole = vllm_run.samples("branch"), vllm_run.samples("whole")
    assert [line.sample for line in branches] == [line.sample for line in whole]
    assert [line.stamp for line in whole] == [rollout.row.stamp for rollout in vllm_run.rollouts]
    tails: list[list[int]] = []
    for call in vllm_run.wire:
        continued = [tail for tail in tails if call.prompt_ids[: len(tail)] == tail]
        assert len(continued) <= 1
        tails = [tail for tail in tails if tail not in continued]
        tails.append([*call.prompt_ids, *call.sampled_ids])
    assert sorted(tails) == sorted(line.sample.ids for line in whole)


def test_the_mask_holds_what_was_sampled_and_nothing_else(vllm_run: VllmRun) -> None:
    for line in vllm_run.samples("branch"):
        sampled = {place for span in line.sample.spans for place in range(span.start, span.end)}
        assert {place for place, masked in enumerate(line.sample.loss_mask) if masked} == sampled
    trained = sum(sum(line.sample.loss_mask) for line in vllm_run.samples("branch"))
    assert trained == sum(len(call.sampled_ids) for call in vllm_run.wire)


def test_every_turn_tells_the_weights_that_sampled_it(vllm_run: VllmRun) -> None:
    versions = {version["version"] for call in vllm_run.wire for version in call.versions}
    turns = [turn for rollout in vllm_run.rollouts for turn in rollout.turns]
    assert versions == {turn.weight_version for turn in turns}
    assert len(versions) == 1
    assert {span.weight_version for line in vllm_run.samples("branch") for span in line.sample.spans} == versions


def test_the_inline_form_grows_from_item_to_item(vllm_run: VllmRun) -> None:
    out = vllm_run.lines.with_name("inline.jsonl")
    assert main(["samples", str(vllm_run.lines), "--inline", "--out", str(out)]) == 0
    for rollout, text in zip(vllm_run.rollouts, out.read_bytes().splitlines(), strict=True):
        seen: list[int] = []
        turns = 0
        for item in orjson.loads(text)["response"]["output"]:
            if "generation_token_ids" in item:
                assert item["prompt_token_ids"][: len(seen)] == seen
                seen = item["prompt_token_ids"] + item["generation_token_ids"]
                turns += 1
        assert turns == len(rollout.turns)


def test_nemo_rl_would_take_each_rollout_as_it_is(vllm_run: VllmRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["samples", "check", str(vllm_run.lines)]) == 0
    assert capsys.readouterr().out == f"{len(vllm_run.rollouts)} results, 0 of them masked: accepted\n"


def test_the_engine_scores_each_sample_as_it_sampled_it(vllm_run: VllmRun, harness_vllm: RealVllm) -> None:
    samples = [line.sample for line in vllm_run.samples("branch")]
    differences: list[float] = []
    with httpx.Client(base_url=harness_vllm.engine_url, timeout=60) as client:
        for sample in samples:
            scores = _scores(client, harness_vllm.model, sample.ids)
            differences += [
                abs(scores[place] - sample.log_probs[place]) for place, on in enumerate(sample.loss_mask) if on
            ]
        # Another prompt is another score: what is compared does depend on it.
        ids, start = samples[0].ids, samples[0].spans[-1].start
        other = _scores(
            client, harness_vllm.model, [*ids[: start - 40], *reversed(ids[start - 40 : start]), *ids[start:]]
        )
        moved = [abs(other[place] - samples[0].log_probs[place]) for place in range(start, len(ids))]
    mean = sum(differences) / len(differences)
    assert mean < MEAN, f"of {len(differences)}"
    assert max(differences) < MAX
    assert max(moved) > 100 * MAX


def _scores(client: httpx.Client, model: Path, ids: list[int]) -> list[float]:
    """Log-prob of each id but the first, all as one prompt."""
    body: JsonObject = {"model": str(model), "prompt": ids, "prompt_logprobs": 0, "max_tokens": 1, "temperature": 1}
    answer = client.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    token_log_probs: list[Any] = answer.json()["choices"][0]["prompt_logprobs"]
    return [0.0, *(one[str(token)]["logprob"] for one, token in zip(token_log_probs[1:], ids[1:], strict=True))]
