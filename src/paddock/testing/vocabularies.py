"""Small vocabularies: byte-level, trained on the package's own text, with the marks of a family of chat templates.

Law     the same text gives the same ids; a vocabulary is trained once per process.
Errors  ConfigError where the package `tokenizers` is missing.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import orjson

import paddock
from paddock.errors import ConfigError
from paddock.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Marks = Literal["chatml", "plain", "instruct", "headers", "roles", "channels", "turns"]
"""`plain`: roles are marked by words that are no tokens, so merges cross from one message into the next. `roles`: an
answer ends with the next message's mark. `channels`: an answer is sampled to other ends than history is written with.
`turns`: results of calls stand in the answer's own turn, and the mark of one is a stop too."""
SIZE = 1000
"""Tokens, but for those added."""
_FILES = 60


class _Family(NamedTuple):
    special: list[str]
    added: list[str]
    stops: list[str]
    texts: dict[str, str]


_FAMILIES: dict[Marks, _Family] = {
    "chatml": _Family(
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        ["<think>", "</think>", "<tool_call>", "</tool_call>"],
        ["<|im_end|>", "<|endoftext|>"],
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": "<|endoftext|>"},
    ),
    "plain": _Family(["<|endoftext|>"], [], ["<|endoftext|>"], {"eos_token": "<|endoftext|>"}),
    "instruct": _Family(
        ["<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"],
        [],
        ["</s>"],
        {"bos_token": "<s>", "eos_token": "</s>"},
    ),
    "headers": _Family(
        ["<|begin|>", "<|eot_id|>", "<|eom_id|>", "<|start_header_id|>", "<|end_header_id|>"],
        [],
        ["<|eot_id|>", "<|eom_id|>"],
        {"bos_token": "<|begin|>", "eos_token": "<|eot_id|>"},
    ),
    "roles": _Family(
        ["<|endoftext|>", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"],
        ["<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_value>", "</arg_value>"],
        ["<|endoftext|>", "<|user|>", "<|observation|>"],
        {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
    ),
    "channels": _Family(
        ["<|endoftext|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>"],
        [],
        ["<|return|>", "<|endoftext|>", "<|call|>"],
        {"eos_token": "<|return|>", "pad_token": "<|endoftext|>"},
    ),
    "turns": _Family(
        [
            "<eos>",
            "<bos>",
            "<|turn>",
            "<turn|>",
            "<|tool_call>",
            "<tool_call|>",
            "<|tool_response>",
            "<tool_response|>",
        ],
        [],
        ["<eos>", "<turn|>", "<|tool_response>"],
        {"bos_token": "<bos>", "eos_token": "<eos>"},
    ),
}


@cache
def _train_tokenizer() -> str:
    """A tokenizer without marks, as JSON."""
    if find_spec("tokenizers") is None:
        raise ConfigError("this needs the package `tokenizers`: pip install 'paddock[tokenizers]'")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=SIZE, initial_alphabet=alphabet, show_progress=False)
    files = sorted(Path(paddock.__file__).parent.rglob("*.py"))[:_FILES]
    tokenizer.train_from_iterator((file.read_text("utf-8") for file in files), trainer)
    return tokenizer.to_str()


def small_tokenizer(marks: Marks = "chatml") -> "Tokenizer":
    """A new one."""
    trained = _train_tokenizer()
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(trained)
    family = _FAMILIES[marks]
    tokenizer.add_special_tokens(family.special)
    tokenizer.add_tokens(family.added)
    return tokenizer


def small_vocabulary(marks: Marks = "chatml") -> Vocabulary:
    """A new one: it counts from nothing."""
    family = _FAMILIES[marks]
    return Vocabulary.of(small_tokenizer(marks), stops=family.stops, special_texts=family.texts)


def write_model_folder(folder: Path, *, marks: Marks = "chatml", chat_template: str | None = None) -> Path:
    """The files of a model that a vocabulary is read from; returns `folder`."""
    tokenizer = small_tokenizer(marks)
    family = _FAMILIES[marks]
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_bytes(orjson.dumps(family.texts))
    stops = [tokenizer.token_to_id(stop) for stop in family.stops]
    (folder / "generation_config.json").write_bytes(orjson.dumps({"eos_token_id": stops}))
    if chat_template is not None:
        (folder / "chat_template.jinja").write_text(chat_template, "utf-8")
    return folder
