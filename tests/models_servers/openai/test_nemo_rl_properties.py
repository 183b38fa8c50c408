"""Whatever a client does over NeMo-RL's chat server, the record holds what the engine saw, and splices hold.

The client wanders: it appends, retries, branches, rewords, prunes, tells nothing. What a request that only appends has
to say after the ids that were sent is worked out here, from what the client knows and the template is known to write.
"""

import random
from itertools import count
from pathlib import Path

import pytest
from tests.models_servers.openai.nemo_rl import PAIR, Stand, require_exact, standing
from tests.support.fuzz_client import FuzzClient, FuzzRequest, output_of, speaks

from paddock.testing.engines import EngineAnswer
from paddock.testing.vocabularies import small_vocabulary
from paddock.types import JsonObject, Turn

VOCABULARY = small_vocabulary()
END = "<|im_end|>"
TURNS = 14


class Walk:
    """One conversation."""

    def __init__(self, seed: int) -> None:
        self.client = FuzzClient(random.Random(seed))
        self.continued = 0
        """Requests that only appended, and went on from the turn that they appended to."""

    def answer(self, _prompt: list[int]) -> EngineAnswer:
        return self.client.sampled(VOCABULARY)

    async def ask(self, stand: Stand, request: FuzzRequest) -> None:
        begun = stand.engine.n_started
        body = {**self.client.body(request), **PAIR}
        got = await stand.client.ask("chat" if "messages" in body else "responses", body, "ro_1")
        assert got.status == 200, got.body
        if stand.engine.n_started == begun:
            return  # it was asked before
        number = len(self.client.requests)
        self.client.record_answer(request, output_of(got.body))
        self.check(stand, number, request)

    def check(self, stand: Stand, number: int, request: FuzzRequest) -> None:
        turns = stand.server.store.turns("ro_1")
        turn, target = turns[number], request.appends_to
        assert not turn.splice_broken
        if target is None or turn.parent != turns[target].id:
            return
        self.continued += 1
        told = {one.uid for one in self.client.ends[target].history}
        new = [one.item for one in request.history if one.uid not in told and one.item is not None]
        if not any(map(speaks, new)):
            assert VOCABULARY.decode(turn.prompt_ids or ()) == tail(turns[target], new)


def tail(before: Turn, new: list[JsonObject]) -> str:
    """What stands between a turn's ids and the next answer."""
    ended = before.sampled_ids is not None and before.sampled_ids[-1:] == [VOCABULARY.stops[END]]
    parts = ["" if ended else END, "\n"]
    for item in new:
        role, text = ("tool", item["output"]) if "output" in item else (item["role"], item["content"])
        parts.append(f"<|im_start|>{role}\n{text}{END}\n")
    return "".join([*parts, "<|im_start|>assistant\n"])


@pytest.mark.parametrize("block", range(2))
async def test_a_wandering_client_gets_exact_turns_and_no_splice_is_broken(tmp_path: Path, block: int) -> None:
    continued = 0
    for seed, _ in zip(count(100 * block), range(6), strict=False):
        walk = Walk(seed)
        async with standing(tmp_path / str(seed), walk.answer, max_model_len=1 << 20) as stand:
            await walk.ask(stand, walk.client.first())
            for _ in range(TURNS - 1):
                await walk.ask(stand, walk.client.plan())
            record = await stand.server.turns("ro_1")
        require_exact(record.turns, stand.chat)
        continued += walk.continued
    assert continued > 15
