"""`python scripts/tiny_model.py FOLDER --harness codeact`: a model small enough for a CPU that calls a harness's tools.

Run under the interpreter of an environment with vLLM (torch and transformers), see `scripts/setup_vllm.sh`.
Model   Qwen3, random, then taught the form of calls for about half a minute: which tool and which arguments is chance,
        nothing in them depends on the prompt. Tokenizer trained on this repository's own text and the calls; template
        `thinking.jinja`. The same seed gives the same model on the same machine and versions.
Data    conversations of random calls of the profile's tools in hermes' format, several at once in some, a short
        thought in some, and now and then a plain answer without a call. The loss is on the assistant's tokens.
        With several harnesses it calls the tools of all of them, whichever the prompt offers.
Size    attention slides over a short window, so that thousands of tokens of prompt dilute nothing; head_dim 32, because
        vLLM's attention on a CPU knows 32 and not 16; contexts up to 32,768 tokens.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from paddock.harness.native.profile import load_profile
from paddock.server.dialects.tools import chat_tools
from paddock.testing.tiny_qwen3 import MARKS, make_model, make_tokenizer, save, say, teach
from paddock.tokens.template import ChatTemplate

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = ROOT / "src" / "paddock" / "server" / "exact" / "templates" / "thinking.jinja"
VOCABULARY = 1536
COMMANDS = (
    "ls",
    "pwd",
    "false",
    "git status",
    "git diff",
    "cat README.md",
    "ls -la",
    "python -c 'print(1)'",
    "echo ok",
)
FILES = ("README.md", "setup.py", "notes.txt", "src/main.py")
WORDS = ("ok", "x = 1", "x = 2", "a", "b")
THOUGHTS = ("Let me look.", "I try it.", "Now the next step.")
ANSWERS = ("Done.", "All is done.")
PATCHES = (
    "*** Begin Patch\n*** Add File: notes.txt\n+ok\n*** End Patch",
    "*** Begin Patch\n*** Update File: setup.py\n@@\n-x = 1\n+x = 2\n*** End Patch",
)
SHELLS = ("execute_bash", "terminal", "exec_command", "shell", "shell_command", "bash")


STEPS, ROWS, ROW_LENGTH, LR = 240, 12, 256, 4e-3
"""Steps of teaching, rows in each, tokens in a row: more than two layers of the window see; the learning rate."""
SHARPER = 1.4
"""What is taught is sharpened by that: slips in the form are rare choices, and become rarer."""
WINDOW = 96
"""Tokens that a layer sees: what is farther away can't disturb, however long the prompt is."""


class RandomCalls:
    """Random calls of a profile's tools."""

    def __init__(self, tools: list[dict[str, Any]], chance: random.Random, commands: Sequence[str] = COMMANDS) -> None:
        self._chance = chance
        self._commands = commands
        self._functions = [tool["function"] for tool in tools]
        self._weights = [8.0 if one["name"] in SHELLS else 1.0 for one in self._functions]

    def message(self) -> dict[str, Any]:
        """An assistant's message."""
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        if self._chance.random() < 0.2:
            message["reasoning_content"] = self._chance.choice(THOUGHTS)
        if self._chance.random() < 0.05:
            return {**message, "content": self._chance.choice(ANSWERS)}
        count = self._chance.choice((1, 1, 1, 1, 2))
        return {**message, "tool_calls": [{"type": "function", "function": self._call()} for _ in range(count)]}

    def _call(self) -> dict[str, Any]:
        (function,) = self._chance.choices(self._functions, self._weights)
        schema = function.get("parameters") or {}
        return {"name": function["name"], "arguments": self._object(schema)}

    def _object(self, schema: dict[str, Any]) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        return {name: self._value(name, properties.get(name) or {}) for name in schema.get("required") or []}

    def _value(self, name: str, schema: dict[str, Any]) -> Any:
        if schema.get("enum"):
            return self._chance.choice(schema["enum"])
        kind = schema.get("type", "string")
        if isinstance(kind, list):
            kind = kind[0]
        if kind == "array":
            inner = schema.get("items") or {}
            return [self._value(name, inner)]
        if kind == "object":
            return self._object(schema)
        if kind in ("integer", "number"):
            return self._chance.choice((1, 2, 10))
        if kind == "boolean":
            return self._chance.random() < 0.5
        return self._chance.choice(self._texts(name))

    def _texts(self, name: str) -> Sequence[str]:
        if name in ("command", "cmd"):
            return self._commands
        if name in ("input", "patch"):
            return PATCHES
        return FILES if "path" in name.lower() or "file" in name.lower() or name == "dir" else WORDS


def conversation(calls: RandomCalls, text: str, system: str, chance: random.Random, turns: int) -> list[dict[str, Any]]:
    """`text`: where what the user and the tools say is cut from."""

    def cut(longest: int) -> str:
        start = chance.randrange(len(text) - longest)
        return text[start : start + chance.randrange(1, longest)]

    messages: list[dict[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": cut(400)}]
    for _ in range(turns):
        message = calls.message()
        messages.append(message)
        messages += [{"role": "tool", "content": cut(200)} for _ in message.get("tool_calls", ())]
        if "tool_calls" not in message:
            messages.append({"role": "user", "content": cut(100)})
    return messages


class TrainingRows:
    """Rows of ids and which of them count."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, texts: Iterator[str], chance: random.Random) -> None:
        self._tokenizer = tokenizer
        self._texts = texts
        self._chance = chance
        self._start = tokenizer.encode("<|im_start|>assistant\n", add_special_tokens=False)
        self._end = tokenizer.eos_token_id

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids, and labels: -100 where nothing is learnt."""
        rows = [self._row(ROW_LENGTH) for _ in range(ROWS)]
        return torch.tensor([row[0] for row in rows]), torch.tensor([row[1] for row in rows])

    def _row(self, length: int) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        while len(ids) < length:
            ids += self._tokenizer.encode(next(self._texts), add_special_tokens=False)
        # Rows end with the conversation or anywhere before it, but not within its head, from which nothing is learnt.
        end = len(ids) if self._chance.random() < 0.5 else self._chance.randrange(length, len(ids) + 1)
        ids = ids[end - length : end]
        return ids, self._labels(ids)

    def _labels(self, ids: list[int]) -> list[int]:
        labels = [-100] * len(ids)
        width = len(self._start)
        inside = False
        for index, one in enumerate(ids):
            if inside:
                labels[index] = one
                inside = one != self._end
            elif ids[index - width + 1 : index + 1] == self._start:
                inside = True
        return labels


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--harness", nargs="+", default=["codeact"], help="whose tools it calls")
    parser.add_argument("--profile", default="default", help="of each of them")
    parser.add_argument("--commands", nargs="+", default=COMMANDS, help="that its shell calls have")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="of teaching; 0: the model stays random")
    parser.add_argument("--threads", type=int, default=1, help="more are slower where other programs run")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    chance = random.Random(args.seed)
    homes = [ROOT / "harnesses" / name for name in args.harness]
    profiles = [load_profile(home, args.profile) for home in homes]
    tools = [tool for profile in profiles for tool in chat_tools(profile.tools).tools]
    systems = [
        home / "prompts" / profile.system for home, profile in zip(homes, profiles, strict=True) if profile.system
    ]
    system = "".join(path.read_text() for path in systems)
    text = "".join(path.read_text() for path in sorted((ROOT / "src" / "paddock").glob("[a-z]*/*.py"))[:60])
    template = ChatTemplate(TEMPLATE.read_text(), {"eos_token": MARKS[2]})
    calls = RandomCalls(tools, chance, args.commands)

    def render(turns: int, *, whole: bool) -> str:
        messages = conversation(calls, text, system if whole else "", chance, turns)
        return template.render(messages, tools=tools if whole else None, generation_prompt=False, arguments={})

    def texts() -> Iterator[str]:
        while True:
            yield render(chance.randrange(1, 6), whole=chance.random() < 0.05)

    words = [text + render(1, whole=True), *(render(4, whole=False) for _ in range(600))]
    tokenizer = make_tokenizer(words, VOCABULARY)
    model = make_model(
        tokenizer,
        args.seed,
        max_position_embeddings=32768,
        use_sliding_window=True,
        sliding_window=WINDOW,
        max_window_layers=0,
    )
    if args.steps:
        teach(model, TrainingRows(tokenizer, texts(), chance).batch, steps=args.steps, lr=LR)
        with torch.no_grad():
            model.model.norm.weight *= SHARPER
    save(model, tokenizer, TEMPLATE.read_text(), args.folder)
    facts = {
        "harness": args.harness,
        "profile": args.profile,
        "commands": args.commands,
        "seed": args.seed,
        "tools": [tool["function"]["name"] for tool in tools],
    }
    (args.folder / "taught.json").write_text(json.dumps(facts, indent=1) + "\n")
    length = len(tokenizer.encode(render(0, whole=True)))
    say(f"{args.folder}: {sum(p.numel() for p in model.parameters())} parameters; a first prompt has {length} tokens")


if __name__ == "__main__":
    main()
