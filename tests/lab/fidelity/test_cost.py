"""The claim that tokenising is paid for once: a long rollout costs what its text is long."""

from pathlib import Path

import orjson
import pytest

from paddock.http import Call
from paddock.lab.fidelity import Language
from paddock.server.exact import ExactConfig
from paddock.testing.engines import SampledAnswer, ScriptedEngine, ScriptedExactServer
from paddock.tokens import samples
from paddock.types import JsonObject

TURNS = 200
TOKENS = 131_072
TOOLS = [{"type": "function", "name": "bash", "parameters": {"type": "object", "properties": {}}}]
MOST = 1.1
"""Of the final conversation's characters, that may be tokenised."""


@pytest.mark.slow
async def test_200_turns_of_131072_tokens_are_tokenised_once(thinking: Language, tmp_path: Path) -> None:
    vocabulary, policy = thinking.vocabulary, thinking.policy_vocabulary
    thought = "<think>\n" + "Look at the next file, and at what calls it. " * 8 + "\n</think>\n\n"
    call = '<tool_call>\n{"name": "bash", "arguments": {"command": "cat notes.txt"}}\n</tool_call>'
    said = [*policy.encode(thought + call), policy.stops["<|im_end|>"]]
    command_output = policy.encode("  12: the sum of “a” and «b» is\t3  (naïve)\n" * 40)
    output = policy.decode(command_output[: TOKENS // TURNS - len(said)])
    engine = ScriptedEngine(policy, lambda _prompt: SampledAnswer(said), chunk_ids=1 << 20)
    config = ExactConfig.model_validate({"turn_store": {"folder": str(tmp_path)}})
    server = ScriptedExactServer(config, engine=engine, prompter=thinking.prompter, vocabulary=vocabulary)
    await server.start()
    before = vocabulary.encoded_chars
    history: list[JsonObject] = [{"role": "user", "content": "Please fix `calc.py`."}]
    for _ in range(TURNS):
        reply = await server.responses({"input": list(history), "tools": TOOLS}, Call(path={"secret": "ro_x"}))
        assert isinstance(reply, dict)
        history += orjson.loads(orjson.dumps(reply["output"]))
        history.append({"type": "function_call_output", "call_id": history[-1]["call_id"], "output": output})
    work = vocabulary.encoded_chars - before
    record = await server.turns("ro_x")
    await server.stop()
    (sample,) = samples(record, "branch")
    last = engine.calls[-1]
    assert sample.ids == last.prompt + last.sampled
    assert sum(sample.loss_mask) == TURNS * len(said)
    assert len(sample.ids) >= TOKENS
    assert work <= MOST * len(vocabulary.decode(sample.ids))
