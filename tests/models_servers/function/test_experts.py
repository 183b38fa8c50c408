"""Claims about recorded experts: each token of a sample has its own row, in every mode, whatever the engine aborted."""

from array import array
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest
from tests.support.models import asking

from paddock.http import new_secret
from paddock.http.routes import rollout_from_wire
from paddock.models_servers.function.server import FunctionConfig, FunctionServer
from paddock.server.exact.functions import Completion, registered
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary, write_model_folder
from paddock.tokens import Mode, RolloutSample, rollout_samples, samples
from paddock.types import JsonObject, Rollout, RoutedExperts, Row, Stamp, TurnRecord, Verdict

SAID = "One small step."


class ExpertEngine:
    """Says the same each time, aborts each answer once; a token's experts are its position and its id."""

    def __init__(self) -> None:
        self.starts: list[int | None] = []
        self._sampled = [*small_vocabulary().encode(SAID), *small_vocabulary().encode("<|im_end|>")]
        self._done = 0

    async def __call__(self, ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        start = sampling.get("routed_experts_start")
        self.starts.append(start)
        part = self._sampled[self._done :] if self._done else self._sampled[:2]
        self._done = 0 if self._done else 2
        whole = [*ids, *part]
        rows = None if start is None else rows_of(whole, start)
        return Completion(part, [-0.5] * len(part), "abort" if self._done else "stop", routed_experts=rows)


def rows_of(ids: list[int], start: int) -> RoutedExperts:
    return RoutedExperts.of_int32(experts(ids, start), start, rows=len(ids) - 1 - start, k=2)


def experts(ids: list[int], start: int) -> bytes:
    return array("i", [expert for place in range(start, len(ids) - 1) for expert in (place, ids[place])]).tobytes()


def server(folder: Path, function: Any, **fields: Any) -> FunctionServer:
    config = {
        "function": function,
        "tokenizer": write_model_folder(folder / "model", chat_template=TEMPLATES["chatml"].source),
        "turn_store": {"folder": folder / "turns"},
        **fields,
    }
    return FunctionServer(FunctionConfig.model_validate(config), name="policy", peers={})


async def play(made: FunctionServer) -> TurnRecord:
    """A rollout that goes on, is branched, and begins anew; streamed and whole."""
    secret, history = new_secret(), [{"role": "user", "content": "go"}]
    async with asking("direct", made) as client:
        for nth in range(3):
            reply = await client.ask("responses", {"input": history}, secret)
            assert reply.status == 200, reply.body
            history = [*history, *reply.body["output"], {"role": "user", "content": f"on {nth}"}]
        for beside in (history[:3], [{"role": "user", "content": "a title"}]):
            await client.ask(
                "responses", {"input": [*beside[:-1], {**beside[-1], "content": "else"}], "stream": True}, secret
            )
        return await made.turns(secret)


@pytest.mark.parametrize("mode", get_args(Mode))
async def test_each_token_of_a_sample_has_its_own_row(mode: Mode, tmp_path: Path) -> None:
    engine = ExpertEngine()
    registration = registered(engine)
    try:
        record = await play(server(tmp_path, registration.name, routed_experts=True))
    finally:
        registration.close()
    assert [turn.parent is None for turn in record.turns] == [True, False, False, False, True]
    verdict = Verdict(reward=1.0, reason="match")
    row = Row(responses_create_params={}, stamp=Stamp(group_id=0, group_size=1, member=0))
    done = Rollout(row=row, outcome="completed", engine="exact", turns=record.turns, verdict=verdict)
    read = rollout_from_wire(orjson.loads(orjson.dumps(done.to_wire())))
    lines = [orjson.loads(orjson.dumps(one.to_wire())) for one in rollout_samples(read, mode)]
    found = [RolloutSample.from_wire(line).sample for line in lines]
    assert found == list(samples(record, mode))
    assert found
    for sample in found:
        assert sample.routed_experts is not None
        whole = RoutedExperts.from_text(sample.routed_experts)
        assert (whole.rows, whole.layers, whole.k) == (len(sample.ids) - 1, 1, 2)
        assert whole == rows_of(sample.ids, 0)
    assert engine.starts[0] == 0
    assert all(start for start in engine.starts[1:8]), "no row is asked for twice"


async def test_nothing_is_asked_for_or_written_by_default(tmp_path: Path) -> None:
    engine = ExpertEngine()
    registration = registered(engine)
    try:
        record = await play(server(tmp_path, registration.name))
    finally:
        registration.close()
    assert set(engine.starts) == {None}
    assert all("routed_experts" not in turn.to_wire() for turn in record.turns)
    assert not any("routed_experts" in file.read_text() for file in (tmp_path / "turns").glob("*"))
    assert all(sample.routed_experts is None for sample in samples(record, "branch"))


async def test_an_engine_without_experts_fails_the_call(tmp_path: Path) -> None:
    async def dense(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        return Completion([5], [-0.5])

    registration = registered(dense)
    made = server(tmp_path, registration.name, routed_experts=True)
    try:
        async with asking("direct", made) as client:
            reply = await client.ask("responses", {"input": [{"role": "user", "content": "go"}]}, new_secret())
    finally:
        registration.close()
    assert reply.status >= 500
    assert reply.body["error"]["code"] == "routed_experts_missing"
