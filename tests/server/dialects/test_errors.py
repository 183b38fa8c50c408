"""Claims about errors: each dialect's clients get the form that they understand, and peers of ours still their own."""

from typing import Any

import orjson
import pytest
from tests.support.streams import read_events

from paddock.errors import BugError, InfraError, PaddockError, RequestError, from_wire
from paddock.server.dialects import CONTEXT_KIND, error_reply, make_writer

MESSAGES = "/r/ro_1/v1/messages"
OPENAI = ("/v1/responses", "/r/ro_1/v1/chat/completions")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (RequestError("no", kind="request_invalid"), 400, "invalid_request_error"),
        (InfraError("busy", kind="upstream_status"), 529, "overloaded_error"),
        (InfraError("key", kind="upstream_auth", retryable=False), 503, "api_error"),
        (BugError("oops"), 500, "api_error"),
    ],
)
def test_messages_clients_get_errors_in_their_form(error: PaddockError, status: int, kind: str) -> None:
    reply = error_reply(MESSAGES, error)
    assert (reply.status, reply.body["type"], reply.body["error"]["type"]) == (status, "error", kind)
    assert reply.body["error"]["message"] == error.message


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "authentication_error"), (404, "not_found_error"), (429, "rate_limit_error")]
)
def test_a_status_of_its_own_is_named(status: int, kind: str) -> None:
    assert error_reply(MESSAGES, RequestError("no", kind="k"), status).body["error"]["type"] == kind


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (
            "This model's maximum context length is 8,192 tokens. However, your messages resulted in 9000 tokens.",
            "prompt is too long: 9000 tokens > 8192 maximum",
        ),
        (
            "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure",
            "prompt is too long: 9000 tokens > 8192 maximum",
        ),
        ("9000 tokens > 8192 maximum", "prompt is too long: 9000 tokens > 8192 maximum"),
        ("this rollout has made its 3 model calls", "prompt is too long: this rollout has made its 3 model calls"),
    ],
)
def test_a_prompt_that_is_too_long_is_said_as_each_client_knows_it(said: str, heard: str) -> None:
    error = RequestError(said, kind=CONTEXT_KIND)
    reply = error_reply(MESSAGES, error)
    assert (reply.status, reply.body["error"]["type"], reply.body["error"]["message"]) == (
        400,
        "invalid_request_error",
        heard,
    )
    for path in OPENAI:
        reply = error_reply(path, error)
        assert (reply.status, reply.body["error"]["code"]) == (400, CONTEXT_KIND)
    (event,) = read_events(make_writer("messages", {}, model="m").fail(said, CONTEXT_KIND))
    assert orjson.loads(event.data)["error"] == {"type": "invalid_request_error", "message": heard}


@pytest.mark.parametrize("path", [MESSAGES, *OPENAI, "/run"])
@pytest.mark.parametrize(
    "error", [RequestError("no", kind="k"), InfraError("busy", kind="k", stage="model"), BugError("b")]
)
def test_a_peer_of_ours_rebuilds_the_error_from_any_form(path: str, error: PaddockError) -> None:
    reply = error_reply(path, error)
    again = from_wire(reply.status, reply.body)
    for field in ("message", "kind", "stage", "retryable"):
        assert getattr(again, field) == getattr(error, field)
    assert type(again) is type(error)


@pytest.mark.parametrize("path", [MESSAGES, *OPENAI])
def test_what_asking_again_cannot_mend_says_so(path: str) -> None:
    final = {"x-should-retry": "false"}
    assert error_reply(path, InfraError("busy", kind="k")).headers == {}
    assert error_reply(path, InfraError("key", kind="k", retryable=False)).headers == final
    assert error_reply(path, RequestError("no", kind="frozen"), 409).headers == final
    assert error_reply(path, RequestError("no", kind="k")).headers == {}


def test_outside_of_model_calls_an_error_is_the_houses_own() -> None:
    error = InfraError("busy", kind="k")
    found: Any = error_reply("/verify", error)
    assert found == (503, error.to_wire(), {})
