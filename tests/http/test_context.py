"""Claims about a call's key: it is found where a client's library puts it; a rollout's secret goes before others."""

import pytest

from paddock.http import Call


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, None),
        ({"authorization": "Bearer ro_1"}, "ro_1"),
        ({"authorization": "Basic cm86MQ=="}, None),
        ({"x-api-key": "ro_1"}, "ro_1"),
        ({"authorization": "Bearer token", "x-api-key": "ro_1"}, "ro_1"),
        ({"authorization": "Bearer ro_1", "x-api-key": "key"}, "ro_1"),
        ({"authorization": "Bearer token", "x-api-key": "key"}, "token"),
        ({"authorization": "Bearer ", "x-api-key": ""}, None),
    ],
)
def test_the_key_is_found_in_either_header(headers: dict[str, str], key: str | None) -> None:
    assert Call.from_headers(headers, {}).bearer == key
