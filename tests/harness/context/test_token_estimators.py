"""Claims about lengths: what is counted goes before what is estimated, and estimates are not too low."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from paddock.harness.context import ContextSettings, make_context
from paddock.harness.context.sizes import Sizes
from paddock.harness.context.token_estimators import (
    MARK_TOKENS,
    ByteEstimator,
    TokenizerEstimator,
    item_bytes,
    load_tokenizer,
    texts,
)
from paddock.harness.contract import ContextExceeded
from paddock.harness.native.history import History
from paddock.types import JsonObject, Usage

CALL: JsonObject = {"type": "function_call", "call_id": "c", "id": "fc", "name": "bash", "arguments": "ls"}
RESULT: JsonObject = {"type": "function_call_output", "call_id": "c", "output": "x" * 600}


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> str:
    """Of a policy that knows two words."""
    tokenizer = Tokenizer(WordLevel({"go": 0, "on": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    file = tmp_path / "tokenizer.json"
    tokenizer.save(str(file))
    return str(file)


@pytest.mark.parametrize(
    ("item", "found"),
    [
        (CALL, ["bash", "ls"]),
        ({"type": "custom_tool_call", "name": "apply_patch", "input": "*** End"}, ["apply_patch", "*** End"]),
        ({"role": "user", "content": "Hi."}, ["Hi."]),
        ({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}, ["Hi."]),
        ({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}]}, ["Hm."]),
        ({"type": "function_call_output", "output": [{"type": "input_image", "image_url": "data:"}]}, None),
        ({"type": "function_call_output", "output": {"a": 1}}, ['{"a":1}']),
    ],
)
def test_the_text_of_an_item_is_what_a_template_renders_and_what_is_no_text_counts_as_json(
    item: JsonObject, found: list[str] | None
) -> None:
    assert list(texts(item)) == (found or ['{"type":"input_image","image_url":"data:"}'])


def test_the_policys_tokenizer_counts_texts(tokenizer_file: str) -> None:
    estimator = TokenizerEstimator(load_tokenizer(tokenizer_file))
    assert estimator.tokens([{"role": "user", "content": "go on go on go"}]) == 5 + MARK_TOKENS
    assert estimator.text_tokens("go on") == 2


def test_with_a_tokenizer_the_budget_is_in_its_tokens(tokenizer_file: str) -> None:
    history = History([{"role": "user", "content": "go " * 1000}])
    with pytest.raises(ContextExceeded):
        make_context(ContextSettings(max_tokens=999), {}).fit(history)
    settings = ContextSettings(max_tokens=1000 + MARK_TOKENS, tokenizer_file=tokenizer_file)
    assert make_context(settings, {}).fit(history) == history.items()
    with pytest.raises(ContextExceeded):
        make_context(settings.model_copy(update={"max_tokens": 1000}), {}).fit(history)


def test_a_tokenizer_that_cant_be_read_is_said_when_the_config_is_read(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="there is no such file"):
        ContextSettings(max_tokens=9, tokenizer_file=str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValidationError, match=r"bad\.json"):
        ContextSettings(max_tokens=9, tokenizer_file=str(tmp_path / "bad.json"))


@pytest.mark.parametrize("notice", ["", "Some steps are not shown."])
def test_a_notice_has_to_say_how_many_steps_are_left_out(notice: str) -> None:
    with pytest.raises(ValidationError, match="steps"):
        ContextSettings(max_tokens=9, omission_notice=notice)


@pytest.mark.slow
def test_the_tokenizers_package_is_not_loaded_without_a_tokenizer_file() -> None:
    import subprocess

    line = "import sys, paddock.harness.native; sys.exit('tokenizers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", line], check=False).returncode == 0


@given(st.lists(st.tuples(st.integers(0, 4000), st.floats(0.05, 1.5)), max_size=8))
def test_bytes_count_at_the_densest_rate_that_was_seen_between_a_third_and_one(seen: list[tuple[int, float]]) -> None:
    estimator = ByteEstimator()
    rates = [1 / 3]
    for size, rate in seen:
        items: list[JsonObject] = [{"role": "user", "content": "x" * size}]
        estimator.calibrate(items, MARK_TOKENS + int(size * rate))
        rates += [min(1.0, int(size * rate) / size)] if size >= 128 else []
    assert abs(estimator.text_tokens("x" * 3000) - 3000 * max(rates)) <= 1


def test_the_engines_counts_go_before_estimates() -> None:
    sizes = Sizes(ByteEstimator(), 0)
    history = History([{"role": "user", "content": "Go."}])
    sizes.add_new(history)
    sizes.correct(40 - sizes.total)
    sizes.record_answer(Usage(input_tokens=40, output_tokens=7))
    assert sizes.tokens == [40]
    history.add([CALL, RESULT])
    history.note("Go on.")
    sizes.add_new(history)
    estimated = ByteEstimator().tokens([RESULT, {"role": "user", "content": "Go on."}])
    assert sizes.tokens == [40, 7 + estimated]
    sizes.correct(300 - sizes.total)
    assert sizes.tokens == [40, 260]
    assert sizes.total == 300


def test_how_long_results_are_is_learnt_without_the_answer_before_them() -> None:
    estimator = ByteEstimator()
    sizes = Sizes(estimator, 0)
    history = History([{"role": "user", "content": "Go."}])
    sizes.add_new(history)
    sizes.record_answer(Usage(input_tokens=9, output_tokens=5000))
    history.add([CALL, RESULT])
    sizes.add_new(history)
    sizes.correct(300 + MARK_TOKENS + 5000 - sizes.tokens[1])
    assert estimator.text_tokens("x" * 600) == 301


def test_a_step_that_the_template_shows_less_of_later_is_not_taken_for_nothing() -> None:
    sizes = Sizes(ByteEstimator(), 0)
    history = History([{"role": "user", "content": "Go."}])
    sizes.add_new(history)
    history.add([CALL, RESULT])
    sizes.add_new(history)
    sizes.correct(-10_000)
    assert sizes.tokens[1] == item_bytes(RESULT) // 6
    assert sizes.total == sum(sizes.tokens)


def test_a_note_after_a_step_was_measured_is_measured_too() -> None:
    sizes = Sizes(ByteEstimator(), 5)
    history = History([])
    history.note("Go.")
    sizes.add_new(history)
    before = sizes.total
    history.note("Go on." * 50)
    sizes.add_new(history)
    assert (before, sizes.total) == (5 + ByteEstimator().tokens(history.fixed[:1]), sizes.tokens[0])
    assert sizes.total > before + 100
