"""Claims about histories that are matched again and again while the record grows: as if each were the first."""

import random

import pytest

from paddock.tokens import TurnIndex, root_of
from paddock.types import JsonObject, Turn
from paddock.types.responses import call_item, message_item

ROOTS = (b"", root_of(["tool"]))


def _answer(rng: random.Random) -> list[JsonObject]:
    kind = rng.randrange(5)
    if kind == 0:
        return [message_item(rng.choice(["Yes.", "No."]))]
    if kind == 1:
        return [message_item("")]
    if kind == 2:
        return [{"type": "reasoning", "id": "rs", "summary": []}, call_item("f", "{}", f"c{rng.randrange(9)}")]
    if kind == 3:
        return [call_item("f", "{}", f"c{rng.randrange(9)}"), call_item("f", "{}", f"d{rng.randrange(9)}")]
    return [message_item("So."), call_item("f", "{}", f"c{rng.randrange(9)}")]


def _next(rng: random.Random, output: list[JsonObject]) -> list[JsonObject]:
    """What a client makes of an answer: it leaves out, cuts off, or says something of its own."""
    told = [item for item in output if rng.random() < 0.9]
    calls = [item for item in output if item["type"] == "function_call"]
    told += [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "out"}
        for call in calls
        if rng.random() < 0.9
    ]
    if not calls or rng.random() < 0.2:
        told.append({"type": "message", "role": "user", "content": rng.choice(["More.", "Again."])})
    return told


def _record(index: TurnIndex, nth: int, parent: str | None, output: list[JsonObject], digest: str) -> None:
    known = {"weight_version": None, "finish_reason": None, "request_hash": str(nth)}
    ids: JsonObject = {"prompt_ids": [nth], "sampled_ids": [nth, nth], "log_probs": [0.0, 0.0]}
    index.add(Turn.model_validate({"id": f"turn_{nth}", "parent": parent, "output": output, **ids, **known}), digest)


@pytest.mark.parametrize("seed", range(150))
def test_a_history_is_matched_as_if_nothing_had_been_matched_before(seed: int) -> None:
    rng = random.Random(seed)
    index = TurnIndex()
    recorded: list[tuple[int, str | None, list[JsonObject], str]] = []
    sampled: list[tuple[int, str | None, list[JsonObject], str]] = []
    histories: list[list[JsonObject]] = [[{"type": "message", "role": "user", "content": "Go."}]]
    for nth in range(14):
        history = list(rng.choice(histories[-3:]))
        root = rng.choice(ROOTS) if rng.random() < 0.1 else b""
        fresh = TurnIndex()
        for turn in recorded:
            _record(fresh, *turn)
        matched = index.match(history, root=root)
        assert matched == fresh.match(history, root=root)
        if matched.turn is not None:
            assert list(index.full_ids(matched.turn)) == fresh.full_ids(matched.turn)
        if rng.random() < 0.8:
            sampled.append((nth, matched.turn, _answer(rng), matched.digest))
        while sampled and rng.random() < 0.7:  # others are recorded when more was asked meanwhile
            recorded.append(sampled.pop())
            _record(index, *recorded[-1])
        said = [*recorded, *sampled]
        if said:
            histories.append([*history, *_next(rng, rng.choice(said[-2:])[2])])
