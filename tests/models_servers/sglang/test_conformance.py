"""SglangServer does what every model server does: over a scripted SGLang, behind a relay that fails on cue."""

from pathlib import Path

import pytest
from tests.support.sglang import ScriptedSglang

from paddock.conformance import ServerTarget, run_suite, suite_for
from paddock.models_servers.sglang import SglangServer
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary, write_model_folder


@pytest.mark.slow
async def test_it_passes_every_behaviour(tmp_path: Path) -> None:
    tokenizer = write_model_folder(tmp_path / "model", chat_template=TEMPLATES["chatml"].source)
    answer = small_vocabulary().encode("One small step, and another one.<|im_end|>")
    async with ScriptedSglang(event_delay_s=0.01, answer=answer) as sglang:
        block = {"base_url": sglang.url, "model": "scripted", "tokenizer": str(tokenizer)}
        target = ServerTarget("models_servers", "sglang", SglangServer, block, [])
        found = await run_suite(suite_for(target.kind), target)
    assert [result for result in found if result.outcome != "passed"] == []
    assert len(found) >= 30
