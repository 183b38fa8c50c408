"""Claims about the model server whose engine is a function: it is one as any other, and others may run elsewhere."""

from pathlib import Path

import pytest
from tests.rollouts.conftest import Environment, completion, row

from paddock.config import load
from paddock.conformance import find_target, run_suite, suite_for
from paddock.rollouts import Completion, open_rollouts
from paddock.server.runtime import open_runtime
from paddock.types import JsonObject

SAID = "One small step, and then another one."


async def sample(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
    answer = completion(SAID, 1)
    limit = sampling.get("max_tokens", len(answer.ids))
    if limit >= len(answer.ids):
        return answer
    return Completion(answer.ids[:limit], answer.log_probs[:limit], "length", 1)


@pytest.mark.slow
async def test_it_passes_what_needs_no_upstream(engine_settings: JsonObject, environment: Environment) -> None:
    environment()
    block = {**engine_settings, "function": f"{__name__}:sample"}
    config = load([], extra={"policy": {"models_servers": {"function": block}}}, servers=())
    target = find_target("models_server:function", config=config)
    rest = [one for one in await run_suite(suite_for(target.kind), target) if one.outcome != "passed"]
    assert {result.outcome for result in rest} == {"skipped"}
    assert all("has no upstream" in result.detail for result in rest)
    assert len(rest) <= 6


async def test_servers_that_run_already_are_called_where_they_are(
    engine_settings: JsonObject, environment: Environment, tmp_path: Path
) -> None:
    async def yes(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        return completion("yes")

    config = environment()
    async with open_runtime(config, names=["environment"], listen=True, token="of-the-servers") as runtime:
        url = runtime.servers["environment"].url
        assert url is not None
        opened = open_rollouts(
            config,
            engine=yes,
            engine_settings=engine_settings,
            servers={"environment": url},
            token="of-the-servers",
        )
        async with opened as rollouts:
            group = await rollouts.run_group(row(), 2)
    assert group.rewards == [1.0, 1.0]
