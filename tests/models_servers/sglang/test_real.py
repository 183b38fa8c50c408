"""SglangEngine before a real SGLang: its ids, log-probs and experts are exact, also where weights change within an
answer."""

from array import array
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.support.real_sglang import CONTEXT, AnswerScore, RealSglang
from tests.support.sglang_answers import LONG, PROMPT, answer, answer_over_new_weights

from paddock.errors import InfraError, RequestError
from paddock.models_servers.sglang.config import SglangConfig
from paddock.models_servers.sglang.engine import SglangEngine
from paddock.types import RoutedExperts

pytestmark = [
    pytest.mark.trainer,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),  # a start of SGLang on a busy machine is in it
]


@pytest_asyncio.fixture(loop_scope="module")
async def engine(sglang: RealSglang) -> AsyncIterator[SglangEngine]:
    """Before the first model, whose version is `first`."""
    sglang.set_weights(0, "first")
    config = SglangConfig(model=str(sglang.models[0]), base_url=sglang.url, first_retry_s=0.05, routed_experts=True)
    made = SglangEngine(config)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


@pytest.mark.parametrize("stream", [True, False])
async def test_log_probs_are_those_of_the_model(engine: SglangEngine, sglang: RealSglang, *, stream: bool) -> None:
    found = await answer(engine, stream=stream, max_tokens=200, ignore_eos=True)
    assert (len(found.ids), found.finish_reason) == (200, "length"), "more than the 128 that SGLang takes by itself"
    assert found.log_probs == pytest.approx(sglang.score(sglang.models[0], PROMPT, found.ids).log_probs, abs=1e-5)
    assert [(span.version, span.start, span.end) for span in found.versions] == [("first", 0, 200)]


async def test_it_says_what_it_does(engine: SglangEngine) -> None:
    (traits,) = engine.traits
    assert traits == (CONTEXT, True, True)


async def test_log_probs_follow_the_temperature_and_cut_offs_are_refused(engine: SglangEngine) -> None:
    hot = await answer(engine, max_tokens=40, temperature=50.0, ignore_eos=True)
    assert min(hot.log_probs) > -7.5, "near ln(1007) each: the temperature is in them"
    with pytest.raises(InfraError) as raised:
        await answer(engine, top_p=0.9)
    assert raised.value.kind == "log_probs_of_model"


async def test_the_stop_token_is_the_last_id(engine: SglangEngine) -> None:
    """`ignore_eos` would have SGLang pass over these, too."""
    free = await answer(engine, max_tokens=60, temperature=0)
    stop = free.ids[-1]
    found = await answer(engine, max_tokens=60, temperature=0, stop_token_ids=[stop])
    assert found.finish_reason == "stop"
    assert found.ids == free.ids[: free.ids.index(stop) + 1]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_prompt_that_is_too_long_is_refused(engine: SglangEngine, *, stream: bool) -> None:
    with pytest.raises(RequestError) as raised:
        await answer(engine, [21] * (CONTEXT + 10), stream=stream, max_tokens=1)
    assert raised.value.kind == "context_length_exceeded"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("start", [0, len(PROMPT) - 1])
async def test_experts_are_those_of_the_model(
    engine: SglangEngine, sglang: RealSglang, start: int, *, stream: bool
) -> None:
    """The prompt's too, which the cache of prefixes may have."""
    found = await answer(engine, stream=stream, max_tokens=40, ignore_eos=True, routed_experts_start=start)
    assert found.routed_experts is not None
    assert found.routed_experts[:3] == (start, 2, 2)
    score = sglang.score(sglang.models[0], PROMPT, found.ids)
    assert rows(found.routed_experts) == chosen(score)[start:]
    assert (await answer(engine, max_tokens=5)).routed_experts is None, "who asks for none gets none"


def rows(experts: RoutedExperts) -> list[list[list[int]]]:
    """The experts of each token in each layer, in the order of their numbers."""
    ids = array("b", experts.data)
    layers = [sorted(ids[at : at + experts.k]) for at in range(0, len(ids), experts.k)]
    return [layers[at : at + experts.layers] for at in range(0, len(layers), experts.layers)]


def chosen(score: AnswerScore) -> list[list[list[int]]]:
    return [[sorted(layer) for layer in token] for token in score.experts]


@pytest.mark.parametrize(("mode", "stream"), [("retract", True), ("retract", False), ("abort", True), ("abort", False)])
async def test_weights_that_change_within_an_answer_give_it_a_span_each(
    engine: SglangEngine, sglang: RealSglang, mode: str, *, stream: bool
) -> None:
    """Paused by `retract`, SGLang goes on by itself; by `abort`, the answer is continued. Before and after, each is of
    its own weights. Experts of an answer that was retracted are all of the second: it was gone over again."""
    found = await answer_over_new_weights(engine, sglang, mode, stream=stream, routed_experts_start=0)
    first, second = found.versions
    assert (first.version, second.version) == ("first", "second")
    assert 0 < first.end == second.start < second.end == LONG
    scores = [sglang.score(model, PROMPT, found.ids) for model in sglang.models]
    for span, score in zip(found.versions, scores, strict=True):
        assert found.log_probs[span.start : span.end] == pytest.approx(score.log_probs[span.start : span.end], abs=1e-5)
    assert found.routed_experts is not None
    edge = 0 if mode == "retract" else len(PROMPT) + first.end - 1
    expected = chosen(scores[0])[:edge] + chosen(scores[1])[edge:]
    assert rows(found.routed_experts) == expected


async def test_tokens_after_a_pause_in_place_are_of_neither_version(engine: SglangEngine, sglang: RealSglang) -> None:
    """Old keys and values stay: the spans are right, and no model alone gives these log-probs."""
    found = await answer_over_new_weights(engine, sglang, "in_place")
    first, second = found.versions
    assert (first.version, second.version, second.end) == ("first", "second", LONG)
    for model in sglang.models:
        expected = sglang.score(model, PROMPT, found.ids).log_probs
        after = zip(found.log_probs[second.start :], expected[second.start :], strict=True)
        assert max(abs(one - other) for one, other in after) > 0.01
