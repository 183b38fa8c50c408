"""vLLM's own parsers as the server drives them: in the environment that has vLLM, all cases in one process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.models_servers.vllm.parsing import VllmParsers

SCRIPT = Path(__file__).parent / "parse_with_vllm.py"
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = [{"type": "function", "function": {"name": "bash", "description": "d", "parameters": PARAMETERS}}]
CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
BAD = '<tool_call>\n{"name": "bash", "arguments": {"command": ls}}\n</tool_call>'
NAMELESS = "<tool_call>\nfoo\n</tool_call>"
START = "<|im_end|>\n<|im_start|>assistant\n"
THOUGHT = "<think>\nso\n</think>\n\n"


def case(text: str, prompt: str = "hi" + START, **fields: Any) -> dict[str, Any]:
    given = {"tool_parser": "hermes", "reasoning_parser": None, "tools": TOOLS, "step": 1, "prompt": prompt}
    return {**given, "text": text, **fields}


CASES = {
    "text": case("hello"),
    "half a tag": case("is a <b or c <too"),
    "call": case(CALL),
    "two calls": case(f"both:\n{CALL}\n{CALL}"),
    "all at once": case(f"both:\n{CALL}\n{CALL}", step=1000),
    "no tools": case(CALL, tools=[]),
    "bad": case(f"x{BAD}"),
    "nameless": case(f"x{NAMELESS}y"),
    "thought and call": case(f"{THOUGHT}now{CALL}", reasoning_parser="qwen3"),
    "thought and nameless": case(f"{THOUGHT}x{NAMELESS}y", reasoning_parser="qwen3"),
    "call without thought": case(CALL, reasoning_parser="qwen3"),
    "earlier thought": case(f"{THOUGHT}now", prompt=f"{THOUGHT}hi{START}", reasoning_parser="deepseek_r1"),
    "begun thought": case("so\n</think>\n\nnow", prompt=f"hi{START}<think>\n", reasoning_parser="deepseek_r1"),
    "empty thought": case("now" + CALL, prompt=f"hi{START}<think>\n\n</think>\n\n", reasoning_parser="deepseek_r1"),
    "empty thought, no tool parser": case(
        "now", prompt=f"hi{START}<think>\n\n</think>\n\n", reasoning_parser="deepseek_r1", tool_parser=None
    ),
    "unknown": case("x", tool_parser="hermess"),
    "raises": case(f"x{CALL}", reasoning_parser="hunyuan_a13b", step=3),
}
CALLED = [["bash", '{"command": "ls"}']]
EXPECTED: dict[str, dict[str, Any]] = {
    "text": {"content": "hello", "calls": []},
    "half a tag": {"content": "is a <b or c <too", "calls": []},
    "call": {"calls": CALLED},
    "two calls": {"content": "both:\n", "calls": CALLED * 2},
    "all at once": {"content": "both:\n", "calls": CALLED * 2},
    "no tools": {"content": CALL, "calls": []},
    "nameless": {"content": f"x{NAMELESS}y", "calls": []},
    "thought and call": {"reasoning_content": "\nso\n", "content": "\n\nnow", "calls": CALLED},
    "thought and nameless": {"reasoning_content": "\nso\n", "content": f"\n\nx{NAMELESS}y", "calls": []},
    "call without thought": {"calls": CALLED},
    "earlier thought": {"reasoning_content": "\nso\n", "content": "\n\nnow", "calls": []},
    "begun thought": {"reasoning_content": "so\n", "content": "\n\nnow", "calls": []},
    "empty thought": {"content": "now", "calls": CALLED},
    "empty thought, no tool parser": {"content": "now", "calls": []},
}


@pytest.fixture(scope="module")
def parsed(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("tokenizer")
    _make_tokenizer(folder)
    done = subprocess.run(
        [vllm_python, "-P", str(SCRIPT), str(folder)],
        input=json.dumps(CASES),
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def _make_tokenizer(folder: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    made.train_from_iterator([CALL], tokenizers.trainers.BpeTrainer(special_tokens=marks, initial_alphabet=alphabet))
    made.add_tokens(["<think>", "</think>", "<tool_call>", "</tool_call>"])
    made.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.mark.vllm
@pytest.mark.parametrize("name", EXPECTED)
def test_an_answer_means_the_same_streamed_and_whole(parsed: dict[str, Any], name: str) -> None:
    assert parsed[name]["stream"] == EXPECTED[name]
    assert parsed[name]["whole"] == EXPECTED[name]


@pytest.mark.vllm
def test_a_stream_is_a_stream(parsed: dict[str, Any]) -> None:
    assert parsed["two calls"]["deltas"] > 4


@pytest.mark.vllm
def test_a_call_that_is_no_json_is_text_when_whole_and_a_call_as_it_was_sampled_when_streamed(
    parsed: dict[str, Any],
) -> None:
    assert parsed["bad"]["whole"] == {"content": f"x{BAD}", "calls": []}
    ((name, arguments),) = parsed["bad"]["stream"]["calls"]
    assert name == "bash"
    assert arguments.startswith('{"command": ls}')


@pytest.mark.vllm
def test_a_parser_that_raises_loses_nothing(parsed: dict[str, Any]) -> None:
    assert parsed["raises"]["failed"]
    assert parsed["raises"]["stream"] == {"content": f"x{CALL}", "calls": []}


@pytest.mark.vllm
def test_an_unknown_parser_is_an_error_of_the_config(parsed: dict[str, Any]) -> None:
    assert parsed["unknown"]["error"] == "parser_unknown"
    assert "hermess" in parsed["unknown"]["message"]


def test_without_parsers_all_is_content_and_vllm_is_not_needed(tmp_path: Path) -> None:
    parsers = VllmParsers(tmp_path, tool_parser=None, reasoning_parser=None)
    parser = parsers(TOOLS, [1])
    assert parser.whole(CALL, [1]) == {"content": CALL}
    assert parser.feed("a", [1], finished=False) == {"content": "a"}
    assert parser.feed("", [1], finished=True) is None


def test_without_vllm_a_parser_is_an_error_of_the_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vLLM") as error:
        VllmParsers(tmp_path, tool_parser="hermes", reasoning_parser=None)
    assert error.value.kind == "vllm_missing"


_OLD_VLLM = {
    "__init__.py": "",
    "parser.py": """
class Parser:
    reasoning_parser = None
    def __init__(self, tokenizer, tools=None, **others): pass
    def parse_delta(self, text, ids, request): return None
    def parse(self, text, request): return None, text, []
class ParserManager:
    get_parser = staticmethod(lambda *names, **others: Parser)
""",
    "tokenizers.py": """
class Tokenizer:
    eos_token_id = 2
    def encode(self, text, add_special_tokens): return [5]
def get_tokenizer(folder): return Tokenizer()
""",
    "entrypoints/openai/chat_completion/protocol.py": """
class ChatCompletionRequest:
    tools = None
    def __init__(self, **fields): pass
""",
}


@pytest.mark.slow
def test_parsers_that_would_make_every_call_text_are_refused(tmp_path: Path) -> None:
    """A vLLM whose parsers are called otherwise; in a process of its own, whose vLLM it is."""
    for name, source in _OLD_VLLM.items():
        file = tmp_path / "vllm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    code = (
        "from pathlib import Path\n"
        "from paddock.errors import ConfigError\n"
        "from paddock.models_servers.vllm.parsing import VllmParsers\n"
        "try:\n"
        "    VllmParsers(Path('x'), tool_parser='hermes', reasoning_parser=None)\n"
        "except ConfigError as error:\n"
        "    print(error.kind, error.message)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, env=env)
    assert done.stdout.startswith("vllm_missing tool_parser, reasoning_parser: need vLLM 0.32 or newer"), done.stderr
    assert "prompt_token_ids" in done.stdout
