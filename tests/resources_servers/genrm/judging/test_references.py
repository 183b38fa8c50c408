"""Claims about who may judge: a model server that shows its model both responses, and no other."""

from typing import Any

import orjson
import pytest

from paddock.config import Config
from paddock.errors import ConfigError
from paddock.server.runtime import describe_servers, open_runtime
from paddock.types import JsonObject

ENDPOINT = {"base_url": "http://127.0.0.1:9/v1", "model": "m"}
JUDGES: dict[str, JsonObject] = {
    "genrm": {**ENDPOINT, "prompt_form": "plain"},
    "paddock.testing.judges:ScriptedJudge": {"prefers": "longer"},
}


def config_of(*judges: JsonObject, **settings: Any) -> Config:
    named = {f"judge{nth}": {"models_servers": judge} for nth, judge in enumerate(judges)}
    references = [{"type": "models_servers", "name": name} for name in named]
    tree = {**named, "genrm": {"resources_servers": {"genrm": {"genrm_model_server": references, **settings}}}}
    return Config.from_yaml(orjson.dumps(tree).decode())


@pytest.mark.parametrize("name", list(JUDGES))
def test_who_shows_both_responses_may_judge(name: str) -> None:
    assert [server.name for server in describe_servers(config_of({name: JUDGES[name]}), None)] == ["judge0", "genrm"]


def test_who_only_passes_requests_on_is_vouched_for() -> None:
    passing = {"openai": {**ENDPOINT, "api_key": None, "upstream_api": "responses"}}
    with pytest.raises(ConfigError, match="judges_read_metadata: true"):
        describe_servers(config_of(passing), None)
    assert len(describe_servers(config_of(passing, judges_read_metadata=True), None)) == 2


@pytest.mark.parametrize("isolate", [False, True])
async def test_who_does_not_is_refused_by_name_before_anything_starts(isolate: bool) -> None:
    config = config_of({"genrm": ENDPOINT}, {"openai": {**ENDPOINT, "api_key": None}})
    with pytest.raises(ConfigError, match=r"^genrm: genrm_model_server: `judge1` .*prompt_form: plain"):
        describe_servers(config, ["genrm"])
    with pytest.raises(ConfigError, match="`judge1`"):
        async with open_runtime(config, isolate=isolate):
            raise AssertionError("it started")
