"""Claims about what identifies a call of a model: its rollout and its request key."""

import hashlib

import orjson
import pytest

from paddock.errors import RequestError
from paddock.http import Call, rollout_of
from paddock.tokens import request_hash
from paddock.types import JsonObject


def test_the_hash_is_of_what_was_asked_and_not_of_how() -> None:
    body = {"input": "a", "model": "m"}
    assert request_hash(body) == request_hash({"model": "m", "input": "a", "stream": True, "stream_options": {}})
    assert request_hash(body) != request_hash({"input": "b", "model": "m"})
    assert len(request_hash(body)) == 64


def test_what_is_no_json_has_no_hash() -> None:
    with pytest.raises(RequestError):
        request_hash({"input": object()})


@pytest.mark.parametrize(
    ("path", "bearer", "secret"),
    [
        ({"secret": "ro_1"}, None, "ro_1"),
        ({"secret": "ro_1"}, "ro_2", "ro_1"),
        ({"secret": "any"}, None, "any"),
        ({}, "ro_2", "ro_2"),
        ({}, "sk-2", None),
        ({}, None, None),
    ],
)
def test_a_rollout_is_named_by_the_url_or_by_a_key_of_its_form(
    path: dict[str, str], bearer: str | None, secret: str | None
) -> None:
    assert rollout_of(Call(path=path, bearer=bearer)) == secret


@pytest.mark.parametrize("key", ["input", "messages"])
@pytest.mark.parametrize("more", [{}, {"a": 1}, {"zz": [1, {"b": 2, "a": None}]}, {"a": "é", "model": "m", "z": 0}])
def test_the_hash_is_that_of_the_canonical_whole(key: str, more: JsonObject) -> None:
    for history in ([], [{"role": "user", "content": "é"}], "text"):
        body = {**more, key: history}
        canonical = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
        assert request_hash({**body, "stream": True}) == hashlib.sha256(canonical).hexdigest()
