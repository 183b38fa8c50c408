"""Our parsers and vLLM's own give the same messages for well-formed answers.

Equal   calls as names and JSON values; reasoning and content up to blank text at their ends, which some of vLLM's
        parsers take away and some keep. Not compared: `openai`, whose parser needs a vocabulary that is downloaded, and
        Mistral's lists, which vLLM reads with Mistral's own tokenizers only.
Differ  in what is malformed. What vLLM's parsers leave out, such as text after a call or a block that is none, is
        content here. A call with arguments that are no JSON object is content here; vLLM passes the text on as it is
        (`deepseek_v3`, `deepseek_v31`, `mistral`; `hermes` for a string). `glm45`: a call of a tool that there is not,
        or one without its end, is a call to one and none to the other. `llama3_json`: vLLM finds calls after text and
        before it. `deepseek_r1`: vLLM drops what stands before `<think>`.
"""

import json
import os
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.example_answers import MARKS, TOOLS, WRITERS, example_answer, message

from paddock.server.exact.parsers import answer_parsers
from paddock.testing.vocabularies import small_tokenizer
from paddock.tokens import Vocabulary

SCRIPT = Path(__file__).parent / "parse_with_vllm.py"
START = "<|im_end|>\n<|im_start|>assistant\n<think>\n"
REASONING = {"glm45": "glm45", "hermes": "qwen3", "qwen3_coder": "qwen3"}
WAYS = [way for way in WRITERS if way != "mistral list"]
ANSWERS = 30
"""Of each way of writing."""


def _cases() -> dict[str, dict[str, Any]]:
    cases = {}
    for way in WAYS:
        random = Random(way)
        for nth in range(ANSWERS):
            with_reasoning = nth % 2 == 1
            answer = example_answer(random, way, reasoning=with_reasoning)
            cases[f"{way} {nth}"] = {
                "tool_parser": WRITERS[way][0],
                "reasoning_parser": REASONING.get(way, "deepseek_r1") if with_reasoning else None,
                "tools": TOOLS,
                "step": 1_000_000,
                "prompt": "hi" + START,
                "text": answer.text,
            }
    return cases


@pytest.mark.vllm
def test_well_formed_answers_mean_what_they_mean_to_vllm(vllm_python: str, tmp_path: Path) -> None:
    tokenizer = small_tokenizer()
    tokenizer.add_tokens(list(MARKS))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    # Without it vLLM asks for the model's kind twice, with a pause between, for each tokenizer that it makes.
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    cases = _cases()
    done = subprocess.run(
        [vllm_python, "-P", str(SCRIPT), str(tmp_path)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.splitlines()[-1])
    vocabulary = Vocabulary.load(tmp_path)
    ours = {}
    for name, case in cases.items():
        assert not theirs[name]["failed"]
        make = answer_parsers(vocabulary, tool_parser=case["tool_parser"], reasoning_parser=case["reasoning_parser"])
        parsed = make(TOOLS, vocabulary.encode(case["prompt"])).whole(case["text"], ())
        ours[name] = _stripped(*message(parsed))
    assert ours == {
        name: _stripped(
            whole.get("reasoning_content", ""),
            whole.get("content", ""),
            [(called, json.loads(arguments)) for called, arguments in whole["calls"]],
        )
        for name, whole in ((name, answer["whole"]) for name, answer in theirs.items())
    }
    assert sum(len(calls) for _, _, calls in ours.values()) >= len(WAYS)


def _stripped(reasoning: str, content: str, calls: list[Any]) -> tuple[str, str, list[Any]]:
    return reasoning.strip(), content.strip(), calls
