"""Synthetic pivot rows of a given size: a history of shell calls and their outputs, then one expected action.

Deterministic by seed. The text is made of code-like words; item counts grow with size as they do in real trajectories.
"""

import json
import random

from paddock.types import JsonObject

_WORDS = (
    "def class return self import from for in if else elif try except raise with open path line value index items "
    "tests assert config module parser token result error state cache buffer stream request response handler"
)
WORDS = _WORDS.split(" ")
ITEM_CHARS = 1800


def text(rng: random.Random, chars: int) -> str:
    words: list[str] = []
    length = 0
    while length < chars:
        word = rng.choice(WORDS)
        words.append(word + rng.choice((" ", " ", " ", "\n    ", "(", ") ")))
        length += len(words[-1])
    return "".join(words)[:chars]


def row(chars: int, seed: int) -> JsonObject:
    """A row whose JSON has about `chars` characters."""
    rng = random.Random(seed)
    items: list[JsonObject] = [
        {"role": "system", "content": "You are a coding agent. " + text(rng, 600)},
        {"role": "user", "content": text(rng, 900)},
    ]
    for step in range(max(1, (chars - 2500) // (ITEM_CHARS + 300))):
        call_id = f"call_{seed}_{step}"
        command = f"sed -n '{step * 10},{step * 10 + 40}p' src/module_{step}.py"
        arguments = json.dumps({"command": command})
        items.append({"type": "function_call", "call_id": call_id, "name": "execute_bash", "arguments": arguments})
        items.append({"type": "function_call_output", "call_id": call_id, "output": text(rng, ITEM_CHARS)})
    edit = {
        "command": "str_replace",
        "path": f"/testbed/src/module_{seed}.py",
        "old_str": text(rng, rng.randint(100, 400)),
        "new_str": text(rng, rng.randint(100, 400)),
    }
    bash = {"command": f"python -m pytest -q tests/test_{seed}.py"}
    name, chosen = ("str_replace_editor", edit) if seed % 2 else ("execute_bash", bash)
    return {
        "responses_create_params": {"input": items, "tools": [], "temperature": 1.0},
        "agent_ref": {"type": "agents", "name": "pivot_agent"},
        "uuid": f"row-{seed}",
        "expected_action": {"type": "function_call", "name": name, "arguments": json.dumps(chosen)},
    }


def response(line: JsonObject, seed: int) -> JsonObject:
    """A response to `line`: the expected action, or in one of four cases a near miss."""
    action = line["expected_action"]
    arguments = json.loads(action["arguments"])
    if seed % 4 == 0:
        key = "new_str" if "new_str" in arguments else "command"
        arguments[key] = arguments[key] + " -x"
    call = {"type": "function_call", "call_id": "c", "name": action["name"], "arguments": json.dumps(arguments)}
    return {"id": f"resp_{seed}", "object": "response", "status": "completed", "model": "m", "output": [call]}


def verify_request(chars: int, seed: int) -> JsonObject:
    line = row(chars, seed)
    return {**line, "response": response(line, seed)}
