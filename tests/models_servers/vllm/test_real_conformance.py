"""`paddock check models_server:vllm` over a real vLLM, by the interpreter that has it."""

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.models_servers.vllm.conftest import SmallVllm

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]


async def test_it_passes_every_behaviour(small_vllm: "SmallVllm", tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(small_vllm.model / "tokenizer.json"))
    words = {str(token): 50 for token in tokenizer.encode("one small step, and another").ids}
    stopping = {"min_tokens": 32, "logit_bias": {**words, str(tokenizer.token_to_id("<|im_end|>")): 100}}
    async with small_vllm.engine() as engine:
        process = engine.replicas.all[0].process
        assert process is not None
        block = {
            "base_url": process.url,
            "model": str(small_vllm.model),
            "api_key": "geheim",
            "sampling_overrides": stopping,
        }
        config = tmp_path / "vllm.json"
        config.write_text(json.dumps({"policy": {"models_servers": {"vllm": block}}}))
        command = [small_vllm.python, "-m", "paddock", "check", "models_server:vllm", str(config)]
        env = {**small_vllm.env, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        pipe = asyncio.subprocess.PIPE
        checking = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=env, cwd=tmp_path)
        out, errors = await asyncio.wait_for(checking.communicate(), 600)
    lines = out.decode().splitlines()
    assert checking.returncode == 0, out.decode() + errors.decode()[-2000:]
    assert [line for line in lines[:-1] if not line.startswith("passed")] == []
    assert len(lines) > 30
