"""Claims about rollouts over NeMo-RL's chat server: exact ids whatever the template, every rule of the server kept."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.models_servers.openai.nemo_rl import (
    FIELDS,
    PAIR,
    TOOL,
    calling,
    exported,
    play,
    require_contiguous,
    require_exact,
    require_one_chain,
    settings,
    standing,
)
from tests.support.nemo_rl import Sampling

from paddock.errors import InfraError, RequestError, from_wire
from paddock.testing.engines import EngineAnswer, SampledAnswer
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import full_prompt
from paddock.tokens.export import plan, samples
from paddock.types import JsonObject, RolloutSettings, Turn
from paddock.types.responses import calls

GO: JsonObject = {"role": "user", "content": "Go."}
BODY: JsonObject = {**PAIR, "input": [GO]}


class Steps:
    """Answers in turn, the last for ever."""

    def __init__(self, *said: EngineAnswer) -> None:
        self.said = list(said)

    def __call__(self, _prompt: list[int]) -> EngineAnswer:
        return self.said.pop(0) if len(self.said) > 1 else self.said[0]


def stepping(*, thought: str = "") -> Steps:
    return Steps(*(calling(number, thought=thought) for number in range(20)))


@pytest.mark.parametrize(("dialect", "stream"), [("responses", False), ("responses", True), ("chat", False)])
async def test_a_tool_loop_is_one_chain_of_the_very_ids_that_were_sampled(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    async with standing(tmp_path, stepping(thought="hm")) as stand:
        history = await play(stand, "ro_1", 4, dialect=dialect, stream=stream)
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    require_one_chain(record.turns)
    assert [seen.spliced for seen in stand.chat.seen] == [False, True, True, True]
    line = exported(record, history if dialect == "responses" else [])
    require_contiguous(line, stand.chat)
    assert (line["instance_config"]["mask_sample"], line["broken_splices"]) == (False, 0)
    rendered = stand.chat.render(stand.chat.bodies[-1])
    assert rendered != stand.chat.seen[-1].prompt, "nothing had to be spliced"


async def test_what_is_asked_is_what_the_server_wants(tmp_path: Path) -> None:
    async with standing(tmp_path, stepping()) as stand:
        await play(stand, "ro_1", 3)
    for body in stand.chat.bodies:
        asked = {key: body[key] for key in ("logprobs", "top_logprobs", "return_tokens_as_token_ids", *PAIR)}
        assert asked == {"logprobs": True, "top_logprobs": 0, "return_tokens_as_token_ids": True, **PAIR}
        assert not {"top_k", "n", "stream", "return_token_ids"} & set(body)
        spoken = [message for message in body["messages"] if message["role"] == "assistant"]
        assert [set(message) & set(FIELDS) for message in spoken] == [set()] * (len(spoken) - 1) + [set(FIELDS)] * bool(
            spoken
        )


@pytest.mark.parametrize(
    ("template", "more"),
    [
        *((name, "") for name, made in TEMPLATES.items() if made.marks == "chatml"),
        *((name, "And now?") for name in ("stripped_reasoning", "bos_again")),
    ],
)
async def test_a_template_may_do_to_the_past_what_it_likes(tmp_path: Path, template: str, more: str) -> None:
    """It drops reasoning, sorts or respells arguments, trims: no prompt holds any of that."""
    async with standing(tmp_path, stepping(thought=" hm "), template=template) as stand:
        history = await play(stand, "ro_1", 3, more=more)
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    require_one_chain(record.turns)
    require_contiguous(exported(record, history), stand.chat)


@pytest.mark.parametrize("template", ["plain_marks", "headers"])
async def test_an_end_token_may_be_written_after_few_messages(tmp_path: Path, template: str) -> None:
    async with standing(tmp_path, Steps("One.", "Two.", "Three."), template=template) as stand:
        await play(stand, "ro_1", 3)
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    require_one_chain(record.turns)


def tail(turn: Turn) -> str:
    return small_vocabulary().decode(turn.prompt_ids or ())


@pytest.mark.parametrize("ended", ["cut", "other_stop", "end"])
async def test_an_answer_may_end_without_the_end_token(tmp_path: Path, ended: str) -> None:
    """The server adds it, or does not say it twice: as its prompts, ours go on from what was sampled."""
    vocabulary = small_vocabulary()
    ids = vocabulary.encode("I look")
    stops = {"cut": [], "other_stop": [vocabulary.stops["<|endoftext|>"]], "end": [vocabulary.stops["<|im_end|>"]]}
    first = SampledAnswer([*ids, *stops[ended]], "length" if ended == "cut" else "stop")
    async with standing(tmp_path, Steps(first, "Done.")) as stand:
        await play(stand, "ro_1", 2)
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    require_one_chain(record.turns)
    end = "" if ended == "end" else "<|im_end|>"
    assert tail(record.turns[1]) == f"{end}\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize("told", [[], [{"role": "assistant", "content": ""}]], ids=["by silence", "by no word"])
async def test_an_answer_without_a_word_is_gone_on_from(tmp_path: Path, told: list[JsonObject]) -> None:
    async with standing(tmp_path, Steps("One.", "", "Three.")) as stand:
        history = await play(stand, "ro_1", 1)
        await stand.client.ask("responses", {**BODY, "tools": [TOOL], "input": history}, "ro_1")
        again = {"role": "user", "content": "Say something."}
        await stand.client.ask("responses", {**BODY, "tools": [TOOL], "input": [*history, *told, again]}, "ro_1")
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    require_one_chain(record.turns)
    assert tail(record.turns[2]) == "\n<|im_start|>user\nSay something.<|im_end|>\n<|im_start|>assistant\n"


async def test_results_that_are_told_between_calls_come_after_all_of_them(tmp_path: Path) -> None:
    both = calling(1) + calling(2).removeprefix("Step 2. ")
    async with standing(tmp_path, Steps(both, "Done.")) as stand:
        got = await stand.client.ask("responses", {**BODY, "tools": [TOOL]}, "ro_1")
        told: list[JsonObject] = [GO]
        for item in got.body["output"]:
            told.append(item)
            if item["type"] == "function_call":
                result = {"type": "function_call_output", "call_id": item["call_id"], "output": item["arguments"]}
                told.append(result)
        assert len(calls(got.body)) == 2
        assert told[-2]["type"] == "function_call"
        await stand.client.ask("responses", {**BODY, "input": told, "tools": [TOOL]}, "ro_1")
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    require_one_chain(record.turns)
    assert [message["role"] for message in stand.chat.bodies[1]["messages"]] == ["user", "assistant", "tool", "tool"]
    results = re.findall(r'tool\n(\{"n":  \d\}|\{"n": \d\})<', tail(record.turns[1]))
    assert [result[-2] for result in results] == ["1", "2"]


@pytest.mark.parametrize(
    "told",
    [
        [{"role": "user", "content": "So far: step 0."}],
        [GO, {"role": "assistant", "content": "I did nothing."}, {"role": "user", "content": "Go on."}],
    ],
    ids=["summed up", "in other words"],
)
async def test_a_rewritten_history_is_a_branch_that_no_ids_are_sent_for(tmp_path: Path, told: list[JsonObject]) -> None:
    async with standing(tmp_path, stepping()) as stand:
        await play(stand, "ro_1", 2)
        await stand.client.ask("responses", {**BODY, "tools": [TOOL], "input": told}, "ro_1")
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    first, second, third = record.turns
    assert (second.parent, third.parent, third.splice_broken) == (first.id, None, False)
    assert [seen.spliced for seen in stand.chat.seen] == [False, True, False]
    assert [len(sample.turns) for sample in samples(record, "branch")] == [2, 1]


async def test_what_others_say_in_the_models_name_is_rendered_and_its_prompt_hangs_where_its_ids_say(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path, Steps("One.", "Two.")) as stand:
        await play(stand, "ro_1", 1)
        said = [{"role": "assistant", "content": text} for text in ("One.", "Not mine.")]
        told = [GO, *said, {"role": "user", "content": "So?"}]
        await stand.client.ask("responses", {**BODY, "tools": [TOOL], "input": told}, "ro_1")
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    assert not stand.chat.seen[1].spliced
    assert not record.turns[1].splice_broken
    assert "Not mine." in small_vocabulary().decode(stand.chat.seen[1].prompt)


async def test_a_rollout_goes_on_in_its_ids_after_a_restart(tmp_path: Path) -> None:
    async with standing(tmp_path, stepping()) as stand:
        history = await play(stand, "ro_1", 2)
        await stand.server.stop()
        await stand.server.start()
        await stand.client.ask("responses", {**BODY, "tools": [TOOL], "input": history}, "ro_1")
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    require_one_chain(record.turns)


async def test_a_broken_splice_is_recorded_as_such_and_nothing_is_trained_across_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fault = {2: "broken_splice"}
    async with standing(tmp_path, stepping(), fault=fault.get) as stand:
        history = await play(stand, "ro_1", 4)
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    first, second, broken, last = record.turns
    assert [turn.splice_broken for turn in record.turns] == [False, False, True, False]
    assert (second.parent, broken.parent, last.parent) == (first.id, None, broken.id)
    assert full_prompt(record.turns, broken.id) == stand.chat.seen[2].prompt
    reasons = [(skipped.turn, skipped.reason) for skipped in plan(record, "branch").skipped]
    assert reasons == [(broken.id, "splice_broken"), (last.id, "no_ids_before")]
    assert [sample.turns for sample in samples(record, "branch")] == [[first.id, second.id]]
    assert list(samples(record, "whole")) == []
    line = exported(record, history)
    assert line["instance_config"] == {"mask_sample": True, "mask_reason": "splice_broken"}
    assert (line["broken_splices"], stand.server.broken_splices) == (1, 1)
    assert "broken splice" in caplog.text
    sampled = [item["generation_token_ids"] for item in line["response"]["output"] if "generation_token_ids" in item]
    assert sampled == [[0]], "the placeholder alone"


@pytest.mark.parametrize(
    ("fault", "kind", "tries"),
    [
        ("no_ids", "token_ids_missing", 1),
        ("no_prompt_ids", "token_ids_missing", 1),
        ("no_log_probs", "token_ids_missing", 1),
        ("short_log_probs", "upstream_unreadable", 3),
        ("nan", "upstream_unreadable", 3),
        ("null", "upstream_unreadable", 3),
        ("500", "upstream_status", 3),
        ("drop", "upstream_connection", 3),
    ],
)
async def test_what_is_no_answer_with_ids_and_log_probs_is_the_machines_failure_and_no_turn(
    tmp_path: Path, fault: Any, kind: str, tries: int
) -> None:
    async with standing(tmp_path, stepping(), fault=lambda _: fault, config={"attempts": 3}) as stand:
        got = await stand.client.ask("responses", BODY, "ro_1")
        record = await stand.server.turns("ro_1")
    error = from_wire(got.status, got.body)
    assert (type(error), error.kind, stand.chat.calls) == (InfraError, kind, tries)
    assert record.turns == []


async def test_a_server_that_fails_for_a_while_is_tried_again_and_spliced_as_before(tmp_path: Path) -> None:
    async with standing(tmp_path, stepping(), fault=lambda nth: "500" if nth in (1, 2) else None) as stand:
        await play(stand, "ro_1", 3)
        record = await stand.server.turns("ro_1")
    assert stand.chat.calls == 5
    require_exact(record.turns, stand.chat)
    require_one_chain(record.turns)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("budget", [{}, {"max_output_tokens": 7}])
async def test_a_prompt_without_room_ends_the_rollout_as_clients_understand(
    tmp_path: Path, budget: JsonObject, stream: bool
) -> None:
    async with standing(tmp_path, stepping(), max_model_len=80) as stand:
        fits = await stand.client.ask("responses", {**BODY, **budget}, "ro_1")
        longer = {**BODY, **budget, "stream": stream, "input": [{"role": "user", "content": "Go. " * 80}]}
        got = await stand.client.ask("responses", longer, "ro_1")
        record = await stand.server.turns("ro_1")
    assert (got.status, got.body["error"]["code"]) == (400, "context_length_exceeded")
    assert type(from_wire(got.status, got.body)) is RequestError
    assert (fits.status, len(record.turns), stand.chat.calls) == (200, 1, 2)


@pytest.mark.parametrize("budget", [{}, {"max_output_tokens": 7}])
async def test_a_prompt_that_has_no_room_only_as_it_is_spliced_ends_the_rollout_likewise(
    tmp_path: Path, budget: JsonObject
) -> None:
    """The template drops what was thought, the splice keeps it: the server fails without a word of why."""
    thinking = f"<think>\n{'hm ' * 60}\n</think>\n\nI look."
    chat: JsonObject = {"template": "stripped_reasoning", "max_model_len": 150}
    async with standing(tmp_path, Steps(thinking), config={"attempts": 2}, **chat) as stand:
        first = await stand.client.ask("responses", BODY, "ro_1")
        told = [GO, *first.body["output"], {"role": "user", "content": "Go on. " * 9}]
        got = await stand.client.ask("responses", {**BODY, **budget, "input": told}, "ro_1")
        record = await stand.server.turns("ro_1")
    assert (got.status, got.body["error"]["code"]) == (400, "context_length_exceeded")
    assert "leaves no room in 150" in stand.chat.refused[0]
    assert (len(record.turns), stand.chat.calls) == (1, 3)


async def test_a_server_that_fails_for_another_reason_fails_as_the_machine(tmp_path: Path) -> None:
    async with standing(tmp_path, stepping(), fault=lambda nth: "500" if nth else None) as stand:
        history = [GO, *(await stand.client.ask("responses", BODY, "ro_1")).body["output"], GO]
        got = await stand.client.ask("responses", {**BODY, "input": history}, "ro_1")
    assert (got.status, got.body["error"]["kind"], stand.chat.calls) == (InfraError.status, "upstream_status", 5)


async def test_an_answer_ends_where_the_context_does(tmp_path: Path) -> None:
    async with standing(tmp_path, Steps("word " * 99), max_model_len=60) as stand:
        await stand.client.ask("responses", {**BODY, "max_output_tokens": 500}, "ro_1")
        record = await stand.server.turns("ro_1")
    (turn,) = record.turns
    assert turn.finish_reason == "length"
    assert len(turn.prompt_ids or ()) + len(turn.sampled_ids or ()) == 60


@pytest.mark.parametrize("missing", ["temperature", "top_p"])
async def test_a_sampling_pair_that_nobody_sets_is_said_before_anything_is_asked(tmp_path: Path, missing: str) -> None:
    async with standing(tmp_path, stepping()) as stand:
        body = {key: value for key, value in BODY.items() if key != missing}
        got = await stand.client.ask("responses", body, "ro_1")
    error = from_wire(got.status, got.body)
    assert (type(error), error.kind, error.retryable) == (InfraError, "sampling_unset", False)
    assert error.message.startswith(f"{missing}: ")
    assert stand.chat.calls == 0


async def test_the_config_stands_over_the_row_and_the_row_over_the_client(tmp_path: Path) -> None:
    config = {"sampling_overrides": {"top_p": 0.9}}
    async with standing(tmp_path, stepping(), config=config, sampling=Sampling(0.7, 0.9)) as stand:
        await stand.server.set("ro_1", RolloutSettings(sampling={"temperature": 0.7, "top_p": 0.8}))
        got = await stand.client.ask("responses", {**BODY, "temperature": 0.2}, "ro_1")
        record = await stand.server.turns("ro_1")
    assert got.status == 200
    assert record.turns[0].sampling == {"temperature": 0.7, "top_p": 0.9}
    assert record.turns[0].overridden == ["temperature", "top_p"]


async def test_validation_samples_as_its_own_pair_says_and_another_pair_is_no_answer(tmp_path: Path) -> None:
    sampling = Sampling(1.0, 1.0, 0.6, 0.95)
    async with standing(tmp_path, stepping(), sampling=sampling, config={"attempts": 2}) as stand:
        good = await stand.client.ask("responses", {**BODY, "temperature": 0.6, "top_p": 0.95}, "ro_1")
        bad = await stand.client.ask("responses", {**BODY, "temperature": 0.6}, "ro_2")
    assert good.status == 200
    assert (bad.body["error"]["kind"], stand.chat.calls) == ("upstream_status", 3)
    assert "have to be one of" in stand.chat.refused[0]
    assert "temperature 0.6 and top_p 1.0: its trainer's?" in bad.body["error"]["message"]


async def test_what_would_sample_or_splice_otherwise_is_never_sent_and_counted(tmp_path: Path) -> None:
    odd = {"top_k": 20, "min_p": 0.1, "presence_penalty": 1.0, "extra_body": {"required_prefix_token_ids": [1], "n": 3}}
    async with standing(tmp_path, stepping()) as stand:
        await stand.server.set("ro_1", RolloutSettings(sampling={"repetition_penalty": 1.1}))
        got = await stand.client.ask("responses", {**BODY, **odd}, "ro_1")
        record = await stand.server.turns("ro_1")
    assert got.status == 200
    assert set(stand.chat.bodies[0]) == {
        *("messages", "model", "temperature", "top_p"),
        *("logprobs", "top_logprobs", "return_tokens_as_token_ids"),
    }
    names = ["min_p", "presence_penalty", "repetition_penalty", "required_prefix_token_ids", "top_k"]
    assert [stand.server.dropped[name] for name in names] == [1] * 5
    assert record.turns[0].sampling == PAIR
    assert record.turns[0].overridden == ["min_p", "presence_penalty", "top_k"]


async def test_routed_experts_are_dropped_and_counted(tmp_path: Path) -> None:
    async with standing(tmp_path, stepping(), routed_experts=True) as stand:
        await play(stand, "ro_1", 2)
        record = await stand.server.turns("ro_1")
    require_exact(record.turns, stand.chat)
    assert stand.server.dropped["routed_experts of answers"] == 2


async def test_a_call_outside_of_a_rollout_is_answered(tmp_path: Path) -> None:
    async with standing(tmp_path, stepping()) as stand:
        got = await stand.client.ask("responses", BODY)
    assert (got.status, stand.chat.seen[0].spliced) == (200, False)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"engine": "text"}, "engine: spliced"),
        ({"request_token_ids": False}, "request_token_ids: true"),
        ({"upstream_api": "responses"}, "upstream_api: chat"),
        ({"sampling_overrides": {"top_k": 20}}, "top_k"),
        ({"extra_body": {"required_prefix_token_ids": [1]}}, "required_prefix_token_ids"),
    ],
)
def test_a_config_that_the_server_would_fail_is_refused_at_start(tmp_path: Path, wrong: JsonObject, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(tmp_path, "http://x/v1", **wrong)
