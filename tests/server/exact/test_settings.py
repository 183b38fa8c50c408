"""Claims about what is set for a rollout: how many calls it may make, and how its answers are sampled."""

from pathlib import Path
from typing import Any

from tests.support.models import asking

from paddock.http import SETTINGS, Call
from paddock.server.exact.server import seed_of_turn
from paddock.testing.engines import scripted_server
from paddock.types import JsonObject, RolloutSettings


def body(**sampling: Any) -> JsonObject:
    return {"input": [{"role": "user", "content": "go"}], **sampling}


async def set_for(server: Any, settings: RolloutSettings) -> None:
    await server.handlers()[SETTINGS](settings, Call(path={"secret": "ro_1"}))


async def test_after_its_last_call_a_rollout_gets_an_overflow_and_a_retry_its_answer(tmp_path: Path) -> None:
    server = scripted_server(tmp_path, lambda prompt: "ok")
    async with asking("asgi", server) as client:
        await set_for(server, RolloutSettings(max_turns=2))
        for nth in range(2):
            assert (await client.ask("responses", body(seed=nth), "ro_1")).status == 200
        refused = await client.ask("responses", body(seed=2), "ro_1")
        assert (refused.status, refused.body["error"]["code"]) == (400, "context_length_exceeded")
        assert (await client.ask("responses", body(seed=1), "ro_1")).status == 200
        assert (await client.ask("responses", body(seed=2), "ro_2")).status == 200
        record = await server.turns("ro_1")
    assert (server.engine.n_started, len(record.turns)) == (3, 2)


async def test_the_config_goes_over_the_row_and_the_row_over_the_client(tmp_path: Path) -> None:
    server = scripted_server(tmp_path, lambda prompt: "ok", sampling_overrides={"top_p": 0.5, "top_k": None})
    async with asking("direct", server) as client:
        await set_for(server, RolloutSettings(sampling={"temperature": 0.7, "top_p": 0.9, "min_p": 0.1}))
        asked = body(temperature=0.2, top_k=5, seed=3, max_output_tokens=64)
        assert (await client.ask("responses", asked, "ro_1")).status == 200
        (turn,) = (await server.turns("ro_1")).turns
    seed = seed_of_turn(3, turn.prompt_ids or [])
    given = {"temperature": 0.7, "top_p": 0.5, "min_p": 0.1, "seed": seed, "max_tokens": 64}
    assert (turn.sampling, server.engine.calls[0].params) == (given, given)
    assert turn.overridden == ["min_p", "temperature", "top_k", "top_p"]


async def test_turns_of_one_seed_have_seeds_of_their_own_the_same_in_every_rollout(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        server = scripted_server(tmp_path / name, lambda prompt: "ok")
        async with asking("direct", server) as client:
            asked = body(seed=3)
            reply = await client.ask("responses", asked, "ro_1")
            more = [*asked["input"], *reply.body["output"], {"role": "user", "content": "and on"}]
            await client.ask("responses", {**asked, "input": more}, "ro_1")
            await client.ask("responses", {**asked, "seed": 4}, "ro_1")
            await client.ask("responses", asked)
        found.append([call.params["seed"] for call in server.engine.calls])
    assert found[0] == found[1]
    assert len({*found[0]}) == 4
    assert found[0][3] == 3  # outside of a rollout it is the client's


async def test_what_an_engine_of_ids_is_not_given_is_counted(tmp_path: Path) -> None:
    server = scripted_server(tmp_path, lambda prompt: "ok")
    form = {"type": "json_schema", "name": "a", "schema": {"type": "object"}}
    async with asking("direct", server) as client:
        await client.ask("responses", body(text={"format": form}, reasoning={"effort": "high"}, top_p=0.5), "ro_1")
        await client.ask("responses", body(parallel_tool_calls=False, max_output_tokens=5), "ro_1")
    assert server.dropped == {"response_format": 1, "reasoning_effort": 1, "parallel_tool_calls": 1}


async def test_the_budget_cuts_an_answer_and_the_next_prompt_goes_on_behind_a_stop_token(tmp_path: Path) -> None:
    server = scripted_server(tmp_path, lambda prompt: "one two three four five", max_tokens_per_turn=3)
    async with asking("direct", server) as client:
        first = (await client.ask("responses", body(), "ro_1")).body
        assert first["incomplete_details"] == {"reason": "max_output_tokens"}
        more: JsonObject = {"role": "user", "content": "more"}
        await client.ask("responses", {"input": [*body()["input"], *first["output"], more]}, "ro_1")
        turns = (await server.turns("ro_1")).turns
    vocabulary = server.equipment.vocabulary
    assert [turn.finish_reason for turn in turns] == ["length", "length"]
    assert turns[0].sampled_ids is not None
    assert turns[0].sampled_ids[-1] not in vocabulary.stop_ids
    assert turns[1].prompt_ids is not None
    assert turns[1].prompt_ids[0] in vocabulary.stop_ids


async def test_a_prompt_without_room_for_an_answer_is_refused_before_the_engine_is_asked(tmp_path: Path) -> None:
    from paddock.testing.engines import ScriptedEngine
    from paddock.testing.vocabularies import small_vocabulary

    engine = ScriptedEngine(small_vocabulary(), lambda prompt: "ok", max_tokens=30)
    server = scripted_server(tmp_path, lambda prompt: "ok", engine=engine)
    async with asking("asgi", server) as client:
        long = await client.ask("responses", {"input": "word " * 50}, "ro_1")
        assert (long.status, long.body["error"]["code"]) == (400, "context_length_exceeded")
        assert (await client.ask("responses", body(), "ro_1")).status == 200
    assert engine.n_started == 1
