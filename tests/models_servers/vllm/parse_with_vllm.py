"""`python parse_with_vllm.py TOKENIZER < cases`: what vLLM's own parsers make of texts, streamed and whole, as JSON.

Runs in the environment that has vLLM. A case: `tool_parser`, `reasoning_parser`, `tools`, `prompt`, `text` and
`step`, tokens per piece of the stream.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from paddock.errors import ConfigError
from paddock.models_servers.vllm.parsing import VllmParsers


def merged(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    """Deltas as one message."""
    message: dict[str, Any] = {}
    calls: dict[int, dict[str, str]] = {}
    for delta in deltas:
        for key in ("reasoning_content", "content"):
            if key in delta:
                message[key] = message.get(key, "") + delta[key]
        for part in delta.get("tool_calls", ()):
            assert "id" not in part
            call = calls.setdefault(part["index"], {"name": "", "arguments": ""})
            assert not (call["arguments"] and "name" in part["function"]), "a name after arguments"
            for key, value in part["function"].items():
                call[key] += value
    return {**message, "calls": [[call["name"], call["arguments"]] for _, call in sorted(calls.items())]}


def answer(tokenizer: Tokenizer, folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    try:
        parsers = VllmParsers(folder, tool_parser=case["tool_parser"], reasoning_parser=case["reasoning_parser"])
    except ConfigError as error:
        return {"error": error.kind, "message": error.message}
    prompt = tokenizer.encode(case["prompt"], add_special_tokens=False).ids
    stream = parsers(case["tools"], prompt)
    text = case["text"]
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    step = case["step"]
    pieces = [ids[start : start + step] for start in range(0, len(ids), step)]
    texts = [tokenizer.decode(piece, skip_special_tokens=False) for piece in pieces]
    assert "".join(texts) == text
    deltas = [
        stream.feed(said, piece, finished=nth == len(pieces) - 1)
        for nth, (said, piece) in enumerate(zip(texts, pieces, strict=True))
    ]
    whole = parsers(case["tools"], prompt).whole(text, ids)
    calls = [[call["function"]["name"], call["function"]["arguments"]] for call in whole.pop("tool_calls", ())]
    return {
        "stream": merged([delta for delta in deltas if delta]),
        "deltas": sum(bool(delta) for delta in deltas),
        "whole": {**{key: value for key, value in whole.items() if value}, "calls": calls},
        "failed": sorted(parsers.failed),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    cases = json.load(sys.stdin)
    sys.stdout.write(json.dumps({name: answer(tokenizer, folder, case) for name, case in cases.items()}) + "\n")


if __name__ == "__main__":
    main()
