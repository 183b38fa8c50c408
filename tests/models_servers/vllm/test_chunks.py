"""Claims about answers of vLLM that are none: each is refused by name, whole or streamed."""

from typing import Any, get_args

import orjson
import pytest

from paddock.models_servers.vllm.chunks import ChunkReader, Form, read_whole
from paddock.server.dialects.failures import EngineFailedError, UnreadableError
from paddock.types import JsonObject


def read_stream(form: Form, body: Any) -> None:
    reader = ChunkReader(form)
    reader.read(orjson.dumps(body))
    reader.end()


@pytest.mark.parametrize("read", [read_whole, read_stream])
@pytest.mark.parametrize("form", get_args(Form))
@pytest.mark.parametrize(
    ("choices", "kind"),
    [
        ([{"token_ids": [], "finish_reason": "stop"}], "upstream_empty"),
        ([{"token_ids": [], "finish_reason": None}], "upstream_no_finish_reason"),
        ([None], "upstream_no_message"),
        ("garbage", "upstream_no_message"),
        ([{"token_ids": "1", "finish_reason": "stop"}], "upstream_unreadable"),
    ],
)
def test_an_answer_that_is_none_is_refused_by_name(read: Any, form: Form, choices: Any, kind: str) -> None:
    with pytest.raises(UnreadableError) as error:
        read(form, {"choices": choices})
    assert error.value.kind == kind


@pytest.mark.parametrize("read", [read_whole, read_stream])
def test_an_error_inside_a_choice_is_the_engines(read: Any) -> None:
    choice: JsonObject = {"token_ids": [], "finish_reason": "stop", "error": {"message": "died"}}
    with pytest.raises(EngineFailedError, match="died"):
        read("generate", {"choices": [choice]})
