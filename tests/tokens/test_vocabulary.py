"""Vocabularies: text to ids and back, whole or while ids come, and what a model folder says."""

from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import PARTS
from tokenizers import Tokenizer, decoders, models

from paddock.errors import ConfigError
from paddock.testing.vocabularies import small_tokenizer, small_vocabulary, write_model_folder
from paddock.tokens import Vocabulary
from paddock.tokens.vocabulary import UNFINISHED

VOCABULARY = small_vocabulary()
SIZE = len(VOCABULARY)
HIGH_BYTES = [VOCABULARY.encode(each)[0] for each in ("é", "🦊", "日", "語")] + VOCABULARY.encode("🦊é日")
IDS = st.lists(st.one_of(st.integers(0, SIZE + 5), st.sampled_from(HIGH_BYTES)), max_size=60)


def fed(vocabulary: Vocabulary, pieces: list[list[int]]) -> str:
    decoder = vocabulary.decoder()
    return "".join([*(decoder.feed(piece) for piece in pieces), decoder.end()])


def split(ids: list[int], random: Random) -> list[list[int]]:
    places = sorted(random.randint(0, len(ids)) for _ in range(random.randint(0, len(ids))))
    return [ids[start:end] for start, end in zip([0, *places], [*places, len(ids)], strict=True)]


@PARTS
@settings(max_examples=150, deadline=None)
@given(ids=IDS, seed=st.integers(0, 2**32))
def test_text_that_comes_in_pieces_is_the_text_of_all_ids(part: int, ids: list[int], seed: int) -> None:
    told = [each for each in ids if each not in VOCABULARY.stop_ids]
    whole = VOCABULARY.decode(told)
    assert fed(VOCABULARY, split(ids, Random(seed))) == whole
    assert fed(VOCABULARY, [[each] for each in ids]) == whole


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=80))
def test_text_comes_back_as_it_was_and_at_once(text: str) -> None:
    ids = VOCABULARY.encode(text)
    assert VOCABULARY.decode(ids) == text
    decoder = VOCABULARY.decoder()
    said = ""
    for each in ids:
        said += decoder.feed([each])
        assert text.startswith(said)
    assert said == text.rstrip(UNFINISHED)
    assert said + decoder.end() == text


@pytest.mark.parametrize("lone", ["🦊", "é", "日"])
def test_an_endless_run_of_unfinished_characters_is_not_held_back_for_ever(lone: str) -> None:
    first_byte = VOCABULARY.encode(lone)[0]
    ids = [first_byte] * 500 + VOCABULARY.encode("é then")
    decoder = VOCABULARY.decoder()
    pieces = [decoder.feed([each]) for each in ids]
    assert sum(map(len, pieces[:400])) > 300
    assert "".join(pieces) + decoder.end() == VOCABULARY.decode(ids)


def test_characters_are_given_whole() -> None:
    decoder = VOCABULARY.decoder()
    ids = VOCABULARY.encode("🦊")
    assert len(ids) > 1
    assert [decoder.feed([each]) for each in ids] == [""] * (len(ids) - 1) + ["🦊"]


def test_an_unfinished_character_comes_out_at_the_end() -> None:
    decoder = VOCABULARY.decoder()
    assert decoder.feed(VOCABULARY.encode("a🦊")[:-1]) == "a"
    assert decoder.end() == UNFINISHED
    assert decoder.end() == ""


def test_stop_ids_are_no_text_but_other_marks_are() -> None:
    ids = VOCABULARY.encode("<think>a</think><tool_call><|im_start|><|im_end|>")
    assert fed(VOCABULARY, [ids]) == "<think>a</think><tool_call><|im_start|>"
    assert ids[-1] in VOCABULARY.stop_ids


def test_spaces_are_kept_where_a_decoder_drops_the_first() -> None:
    """A decoder that strips the start of a text, as SentencePiece's does."""
    words = {"▁a": 0, "▁b": 1, "▁": 2, "</s>": 3}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="▁"))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(content=" ", left=1, right=0)]
    )
    vocabulary = Vocabulary.of(tokenizer, stops=["</s>"])
    ids = [0, 1, 0, 2, 1, 1, 0]
    assert vocabulary.decode(ids) == "a b a  b b a"
    assert fed(vocabulary, [[each] for each in ids]) == vocabulary.decode(ids)


def test_marks_in_text_become_their_ids_and_nothing_is_added() -> None:
    vocabulary = small_vocabulary("instruct")
    ids = vocabulary.encode("<s>a[INST]")
    assert [vocabulary.decode([each]) for each in ids] == ["<s>", "a", "[INST]"]
    assert vocabulary.encode("") == []


def test_what_is_tokenised_is_counted() -> None:
    vocabulary = small_vocabulary()
    vocabulary.encode("four")
    vocabulary.encode("🦊")
    assert vocabulary.encoded_chars == 5


def test_lone_surrogates_do_no_harm() -> None:
    assert VOCABULARY.decode(VOCABULARY.encode("a\ud800b\ud83e\udd8a")) == f"a{UNFINISHED}b🦊"


def test_limits_of_the_tokenizer_file_do_not_apply() -> None:
    tokenizer = small_tokenizer()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=50)
    text = "def f(x):\n    return x"
    assert Vocabulary.of(tokenizer, stops=["<|im_end|>"]).encode(text) == VOCABULARY.encode(text)


def written(folder: Path, name: str, content: Any) -> None:
    (folder / name).write_bytes(orjson.dumps(content))


def test_a_model_folder_says_what_ends_an_answer_and_what_templates_may_name(tmp_path: Path) -> None:
    vocabulary = Vocabulary.load(write_model_folder(tmp_path, chat_template="{{ messages }}"))
    assert vocabulary.stop_texts == ("<|endoftext|>", "<|im_end|>")
    assert vocabulary.special_texts["eos_token"] == "<|im_end|>"
    assert vocabulary.chat_template == "{{ messages }}"
    assert vocabulary.encode("<|im_start|>a é") == VOCABULARY.encode("<|im_start|>a é")


@pytest.mark.parametrize(
    ("ids", "eos", "stops"),
    [
        (lambda end: end, None, {"<|im_end|>"}),
        (lambda end: [end], "<|endoftext|>", {"<|im_end|>", "<|endoftext|>"}),
        (lambda end: None, {"content": "<|im_end|>", "special": True}, {"<|im_end|>"}),
    ],
)
def test_ends_are_written_in_several_ways(ids: Any, eos: Any, stops: set[str], tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path)
    written(folder, "generation_config.json", {"eos_token_id": ids(VOCABULARY.stops["<|im_end|>"])})
    written(folder, "tokenizer_config.json", {"eos_token": eos})
    assert set(Vocabulary.load(folder).stop_texts) == stops


@pytest.mark.parametrize(
    ("given_template", "found"),
    [
        ("a", "a"),
        ([{"name": "tool_use", "template": "b"}, {"name": "default", "template": "a"}], "a"),
        ([{"name": "tool_use", "template": "b"}], None),
        (None, None),
    ],
)
def test_a_template_may_stand_in_the_tokenizers_config(given_template: Any, found: str | None, tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path)
    written(folder, "tokenizer_config.json", {"eos_token": "<|im_end|>", "chat_template": given_template})
    assert Vocabulary.load(folder).chat_template == found
    (folder / "chat_template.jinja").write_text("c")
    assert Vocabulary.load(folder).chat_template == "c"


def test_a_folder_that_is_no_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        Vocabulary.load(tmp_path)
    folder = write_model_folder(tmp_path)
    written(folder, "generation_config.json", {})
    written(folder, "tokenizer_config.json", {})
    with pytest.raises(ConfigError, match="no token ends an answer"):
        Vocabulary.load(folder)
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json"):
        Vocabulary.load(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        Vocabulary.load(folder)


def test_a_stop_that_is_no_token_is_refused() -> None:
    with pytest.raises(ConfigError, match="'<stop>' is no token"):
        Vocabulary.of(small_tokenizer(), stops=["<stop>"])
