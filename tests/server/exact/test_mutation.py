"""Claims about clients in the same process that change what they sent, or what they were given: no record changes."""

import asyncio
import copy
import random
from pathlib import Path
from typing import Any

import pytest

from paddock.http import Call
from paddock.testing.engines import ScriptedExactServer, scripted_server
from paddock.types import JsonObject

CALL = '<tool_call>\n{"name": "sh", "arguments": {"seconds": 1}}\n</tool_call>'
QUESTION: JsonObject = {"role": "user", "content": [{"type": "input_text", "text": "Go."}]}
BODY: JsonObject = {"model": "m", "stop": ["END"], "temperature": 1.0}


async def ask(server: ScriptedExactServer, body: JsonObject) -> JsonObject:
    answer = await server.responses(body, Call(path={"secret": "ro_1"}))
    assert isinstance(answer, dict)  # no stream was asked for
    return answer


def result(answer: JsonObject) -> JsonObject:
    call = next(item for item in answer["output"] if item["type"] == "function_call")
    return {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}


def spoil(value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str):
                value[key] = f"spoiled {inner}"
            spoil(inner)
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        value.append("spoiled")


async def test_the_record_is_as_if_the_client_had_changed_nothing(tmp_path: Path) -> None:
    records = []
    for spoils in (False, True):
        server = scripted_server(tmp_path / str(spoils), lambda _prompt: f"So. {CALL}")
        await server.start()
        history: list[JsonObject] = [QUESTION]
        prompts = []
        for _ in range(4):
            body = copy.deepcopy({**BODY, "input": history})
            answer = await ask(server, body)
            history += [*copy.deepcopy(answer["output"]), result(answer)]
            if spoils:
                spoil(body)
                spoil(answer["output"])
            prompts.append(server.engine.calls[-1].prompt)
        turns = (await server.turns("ro_1")).turns
        records.append((prompts, [(turn.sampling, turn.prompt_ids, texts(turn.output)) for turn in turns]))
        assert [turn.parent for turn in turns] == [None, *(turn.id for turn in turns[:-1])]
        await server.stop()
    assert records[0] == records[1]


def texts(output: list[JsonObject]) -> list[JsonObject]:
    """Without what is new in each run."""
    return [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in output]


async def test_an_answer_that_is_told_again_is_the_one_that_was_told_first(tmp_path: Path) -> None:
    server = scripted_server(tmp_path, lambda _prompt: f"So. {CALL}")
    await server.start()
    body = {**BODY, "input": [QUESTION]}
    first = await ask(server, body)
    told = copy.deepcopy(first["output"])
    for _ in range(2):
        spoil(first["output"])
        first = await ask(server, body)
        assert first["output"] == told
    assert server.engine.n_started == 1
    await server.stop()


@pytest.mark.parametrize("seed", range(5))
async def test_branches_that_run_at_once_have_the_ids_of_their_own_turns(tmp_path: Path, seed: int) -> None:
    """The ids of a prompt are handed on from turn to turn: also where several go on from one."""
    rng = random.Random(seed)
    server = scripted_server(tmp_path, lambda _prompt: f"So. {CALL}")
    await server.start()
    histories: list[list[JsonObject]] = [[QUESTION]]

    async def go_on(history: list[JsonObject], nth: int) -> None:
        answer = await ask(server, {**BODY, "input": history})
        more = {"role": "user", "content": f"{nth}"}
        histories.append([*history, *answer["output"], result(answer), more])

    for nth in range(6):
        chosen = rng.sample(histories, min(3, len(histories)))
        await asyncio.gather(*(go_on(history, nth * 10 + at) for at, history in enumerate(chosen)))
    index = server.store.open("ro_1").index
    whole: dict[str, list[int]] = {}
    for turn in server.store.turns("ro_1"):
        before = whole[turn.parent] if turn.parent else []
        whole[turn.id] = [*before, *(turn.prompt_ids or ()), *(turn.sampled_ids or ())]
        assert index.full_ids(turn.id) == whole[turn.id]
    seen = sorted([*each.prompt, *each.sampled] for each in server.engine.calls)
    assert sorted(whole.values()) == seen
    await server.stop()
