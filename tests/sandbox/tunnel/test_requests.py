"""Claims about what a call from inside may say: its dialect's data goes on, nothing that acts or is read upstream."""

import logging
from typing import Any

import orjson
import pytest
from anthropic.types.beta import message_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from paddock.http.transport import make_client
from paddock.sandbox.tunnel.dialects import DIALECTS
from paddock.types import JsonObject

RESPONSES, CHAT, MESSAGES = "/responses", "/chat/completions", "/messages"
WEB, FILE, DATA = "http://127.0.0.1:9/x.png", "file:///etc/passwd", "data:image/png;base64,iVBORw0KGgo="
WEATHER = {"type": "object", "properties": {"image_url": {"type": "object"}, "file_id": {"const": "file_1"}}}


def user(part: JsonObject) -> list[JsonObject]:
    return [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]


def asked(*items: JsonObject) -> JsonObject:
    return {"input": [{"role": "user", "content": "q"}, *items]}


def shown(part: JsonObject) -> JsonObject:
    return {"input": [{"type": "message", "role": "user", "content": [part]}]}


async def sent(open_tunnel: Any, path: str, body: JsonObject) -> Any:
    tunnel = await open_tunnel()
    async with make_client() as client:
        return await client.post(tunnel.base_url + path, content=orjson.dumps(body))


REFUSED: list[tuple[str, JsonObject, str]] = [
    (RESPONSES, shown({"type": "input_image", "image_url": WEB}), "input[0].content[0].image_url"),
    (RESPONSES, shown({"type": "input_image", "image_url": FILE}), "input[0].content[0].image_url"),
    (RESPONSES, shown({"type": "input_image", "file_id": "file_1"}), "input[0].content[0].file_id"),
    (RESPONSES, shown({"type": "input_file", "file_url": WEB}), "input[0].content[0].file_url"),
    (RESPONSES, shown({"type": "input_file", "file_data": WEB}), "input[0].content[0].file_data"),
    (RESPONSES, shown({"type": "input_file", "file_id": "file_1"}), "input[0].content[0].file_id"),
    (
        RESPONSES,
        asked({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": WEB}]}),
        "input[1].output[0].image_url",
    ),
    (
        RESPONSES,
        asked({"type": "computer_call_output", "call_id": "c", "output": {"type": "x", "image_url": WEB}}),
        "input[1].output.image_url",
    ),
    (RESPONSES, asked({"type": "item_reference", "id": "msg_1"}), "input[1]"),
    (RESPONSES, asked({"id": "msg_1"}), "input[1].id"),
    (RESPONSES, asked({"type": "code_interpreter_call", "container_id": "c"}), "input[1]"),
    (RESPONSES, asked({"type": "mcp_approval_response", "approve": True}), "input[1]"),
    (RESPONSES, asked({"type": "additional_tools", "tools": [{"type": "mcp"}]}), "input[1].tools[0]"),
    (RESPONSES, {"input": "q", "previous_response_id": "resp_1"}, "previous_response_id"),
    (RESPONSES, {"input": "q", "conversation": {"id": "conv_1"}}, "conversation"),
    (RESPONSES, {"input": "q", "prompt": {"id": "pmpt_1"}}, "prompt"),
    (RESPONSES, {"input": "q", "background": True}, "background"),
    (RESPONSES, {"input": "q", "tools": [{"type": "mcp", "server_url": WEB}]}, "tools[0]"),
    (RESPONSES, {"input": "q", "tools": [{"type": "web_search"}]}, "tools[0]"),
    (RESPONSES, {"input": "q", "tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, "tools[0]"),
    (RESPONSES, {"input": "q", "tools": [{"type": "code_interpreter", "container": "c"}]}, "tools[0]"),
    (RESPONSES, {"input": "q", "tools": [{"type": "image_generation"}]}, "tools[0]"),
    (RESPONSES, {"input": "q", "tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}, "tools[0]"),
    (RESPONSES, {"input": "q", "tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]}, "tools[0].tools[0]"),
    (RESPONSES, {"input": "q", "tools": {"type": "mcp"}}, "tools"),
    (RESPONSES, {"input": "q", "text": {"format": {"type": "structural_tag"}}}, "text.format.type"),
    (CHAT, {"messages": user({"type": "image_url", "image_url": {"url": WEB}})}, "messages[0].content[1].image_url"),
    (CHAT, {"messages": user({"type": "image_url", "image_url": WEB})}, "messages[0].content[1].image_url"),
    (CHAT, {"messages": user({"image_url": "HTTP://h/x"})}, "messages[0].content[1].image_url"),
    (CHAT, {"messages": user({"type": "video_url", "video_url": {"url": FILE}})}, "messages[0].content[1].video_url"),
    (CHAT, {"messages": user({"type": "audio_url", "audio_url": {"url": WEB}})}, "messages[0].content[1].audio_url"),
    (CHAT, {"messages": user({"type": "image", "path": "/etc/passwd"})}, "messages[0].content[1].path"),
    (CHAT, {"messages": user({"type": "image_embeds", "image_embeds": "AA"})}, "messages[0].content[1].image_embeds"),
    (CHAT, {"messages": user({"type": "image_url", "uuid": "other's"})}, "messages[0].content[1].uuid"),
    (CHAT, {"messages": user({"type": "file", "file": {"file_id": "f"}})}, "messages[0].content[1].file.file_id"),
    (CHAT, {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}, "messages[0].audio"),
    (CHAT, {"messages": [], "web_search_options": {"search_context_size": "low"}}, "web_search_options"),
    (CHAT, {"messages": [], "chat_template": "{{ x }}"}, "chat_template"),
    (
        CHAT,
        {"messages": [], "chat_template_kwargs": {"chat_template": "{{ x }}"}},
        "chat_template_kwargs.chat_template",
    ),
    (CHAT, {"messages": [], "mm_processor_kwargs": {"a": 1}}, "mm_processor_kwargs"),
    (CHAT, {"messages": [], "media_io_kwargs": {"video": {"a": 1}}}, "media_io_kwargs"),
    (CHAT, {"messages": [], "logits_processors": ["os.system"]}, "logits_processors"),
    (CHAT, {"messages": [], "kv_transfer_params": {"remote_host": "h"}}, "kv_transfer_params"),
    (CHAT, {"messages": [], "structured_outputs": {"backend": "b"}}, "structured_outputs"),
    (CHAT, {"messages": [], "guided_decoding_backend": "b"}, "guided_decoding_backend"),
    (CHAT, {"messages": [], "response_format": {"type": "structural_tag"}}, "response_format.type"),
    (
        MESSAGES,
        {"messages": user({"type": "image", "source": {"type": "url", "url": WEB}})},
        "messages[0].content[1].source",
    ),
    (
        MESSAGES,
        {"messages": user({"type": "document", "source": {"type": "file", "file_id": "f"}})},
        "messages[0].content[1].source",
    ),
    (
        MESSAGES,
        {"messages": user({"type": "tool_result", "content": [{"type": "image", "source": {"type": "url"}}]})},
        "messages[0].content[1].content[0].source",
    ),
    (MESSAGES, {"messages": user({"type": "container_upload", "file_id": "f"})}, "messages[0].content[1]"),
    (MESSAGES, {"messages": [], "system": [{"type": "x", "file_id": "f"}]}, "system[0].file_id"),
    (MESSAGES, {"messages": [], "mcp_servers": [{"type": "url", "url": WEB}]}, "mcp_servers"),
    (MESSAGES, {"messages": [], "container": "container_1"}, "container"),
    (MESSAGES, {"messages": [], "tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0]"),
    (MESSAGES, {"messages": [], "tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}, "tools[0]"),
    (MESSAGES, {"messages": [], "tools": [{"type": "code_execution_20250825", "name": "x"}]}, "tools[0]"),
    (MESSAGES, {"messages": [], "tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}, "tools[0]"),
]


@pytest.mark.parametrize(("path", "body", "place"), REFUSED)
async def test_what_would_act_or_be_read_upstream_is_refused_by_its_place(
    open_tunnel: Any, upstream: Any, path: str, body: JsonObject, place: str
) -> None:
    reply = await sent(open_tunnel, path, body)
    told = reply.json()
    assert (reply.status_code, told["error"]["type"]) == (400, "invalid_request_error")
    assert told["error"]["message"].startswith(f"{place}: ")
    if path == MESSAGES:
        assert told["type"] == "error"
    else:
        assert (told["error"]["param"], told["error"]["code"]) == (place, "field_refused")
    assert upstream.asked == []


PASSED: list[tuple[str, JsonObject]] = [
    (
        RESPONSES,  # as Codex asks
        {
            "model": "policy",
            "instructions": "Be careful.",
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": WEB}]},
                {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": DATA}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": "x"},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"image_url": "http://h"}'},
                {"type": "function_call_output", "call_id": "c", "output": FILE},
                {"type": "custom_tool_call", "call_id": "d", "name": "apply_patch", "input": "*** Begin Patch"},
                {"type": "local_shell_call", "call_id": "e", "action": {"type": "exec", "command": ["ls"]}},
                {"type": "additional_tools", "tools": [{"type": "function", "name": "g", "parameters": WEATHER}]},
            ],
            "tools": [
                {"type": "function", "name": "f", "strict": False, "parameters": WEATHER},
                {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark"}},
                {"type": "local_shell"},
                {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "h"}]},
            ],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning": {"effort": "high", "summary": "auto"},
            "store": False,
            "stream": True,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "k",
            "client_metadata": {"x-codex-installation-id": "i"},
            "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": WEATHER}},
        },
    ),
    (
        CHAT,  # as clients of litellm and of the AI SDK ask
        {
            "model": "policy",
            "messages": [
                {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]},
                *user({"type": "image_url", "image_url": {"url": DATA, "detail": "auto"}}),
                {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "hm",
                    "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
                {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": WEB}]},
                *user({"type": "file", "file": {"filename": "a.pdf", "file_data": "JVBERi0xLjQK"}}),
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": WEATHER}}],
            "temperature": 0.2,
            "top_k": 20,
            "max_completion_tokens": 100,
            "reasoning_effort": "high",
            "stream": True,
            "stream_options": {"include_usage": True},
            "chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low"},
        },
    ),
    (
        MESSAGES,  # as Claude Code asks
        {
            "model": "policy",
            "max_tokens": 100,
            "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": WEB}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "tool_use", "id": "t", "name": "Fetch", "input": {"source": {"url": WEB}}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t",
                            "content": [
                                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}},
                                {"type": "document", "source": {"type": "text", "data": "d"}},
                            ],
                        }
                    ],
                },
            ],
            "tools": [
                {"name": "Fetch", "description": "d", "input_schema": WEATHER},
                {"type": "bash_20250124", "name": "bash"},
            ],
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "metadata": {"user_id": "u"},
            "stream": True,
        },
    ),
]


@pytest.mark.parametrize(("path", "body"), PASSED)
async def test_what_real_clients_say_goes_on_as_they_say_it(
    open_tunnel: Any, upstream: Any, path: str, body: JsonObject
) -> None:
    assert (await sent(open_tunnel, path, body)).status_code == 200
    assert [orjson.loads(one.body) for one in upstream.asked] == [body]


LEFT_OUT: list[tuple[str, JsonObject, JsonObject]] = [
    (CHAT, {"messages": [], "usage": {"include": True}}, {"messages": []}),
    (CHAT, {"messages": [], "cache_salt": "s", "priority": 1, "request_id": "r"}, {"messages": []}),
    (CHAT, {"messages": [], "add_generation_prompt": True, "return_token_ids": True}, {"messages": []}),
    (CHAT, {"messages": [], "extra_body": {"chat_template": "{{ x }}"}}, {"messages": []}),
    (
        CHAT,
        {"messages": [], "metadata": {"a": "b", "extra_body": '{"priority": 1}', "chat_template_kwargs": "{}"}},
        {"messages": [], "metadata": {"a": "b"}},
    ),
    (
        CHAT,
        {"messages": [], "chat_template_kwargs": {"thinking": True, "tokenize": True, "documents": []}},
        {"messages": [], "chat_template_kwargs": {"thinking": True}},
    ),
    (CHAT, {"messages": [], "chat_template_kwargs": '{"a": 1}'}, {"messages": [], "chat_template_kwargs": None}),
    (RESPONSES, {"input": "q", "tools": [{"type": "new_thing"}]}, {"input": "q", "tools": []}),
    (
        RESPONSES,
        {"input": "q", "conversation": None, "background": False, "tools": None},
        {"input": "q", "tools": None},
    ),
]


@pytest.mark.parametrize(("path", "body", "left"), LEFT_OUT)
async def test_what_no_table_knows_is_left_out_and_ends_nothing(
    open_tunnel: Any, upstream: Any, path: str, body: JsonObject, left: JsonObject
) -> None:
    assert (await sent(open_tunnel, path, body)).status_code == 200
    assert [orjson.loads(one.body) for one in upstream.asked] == [left]


async def test_the_log_names_what_is_left_out_once_in_a_rollout(
    open_tunnel: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tunnel = await open_tunnel()
    many = {f"field{n}\n": n for n in range(100)}
    async with make_client() as client:
        for body in ({"odd": 1}, {"odd": 2}, {"odd": 3, "other": 4}, many, many):
            with caplog.at_level(logging.WARNING, "paddock.sandbox"):
                await client.post(tunnel.base_url + RESPONSES, content=orjson.dumps({"input": "q", **body}))
    named = [record.getMessage().rpartition(": ")[2] for record in caplog.records if record.name == "paddock.sandbox"]
    assert named[:2] == ["'odd'", "'other'"]
    assert len(named) == 3
    assert named[2].count("field") == 30
    assert "\n" not in named[2]


async def test_a_second_request_hidden_in_the_first_does_not_go_on(open_tunnel: Any, upstream: Any) -> None:
    tunnel = await open_tunnel()
    twice = b'{"input": [{"type": "item_reference", "id": "x"}], "model": "m", "input": "q"}'
    async with make_client() as client:
        assert (await client.post(tunnel.base_url + RESPONSES, content=twice)).status_code == 200
    assert [one.body for one in upstream.asked] == [b'{"input":"q","model":"m"}']


@pytest.mark.parametrize("body", [b"no json", b"[1]", b'"q"', b'{"input": NaN}', b'{"input": "\\ud800"}', b""])
@pytest.mark.parametrize("path", [RESPONSES, CHAT, MESSAGES])
async def test_what_is_no_request_is_refused_in_the_form_of_its_dialect(
    open_tunnel: Any, upstream: Any, path: str, body: bytes
) -> None:
    tunnel = await open_tunnel()
    async with make_client() as client:
        reply = await client.post(tunnel.base_url + path, content=body)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
    assert (reply.json().get("type") == "error") == (path == MESSAGES)
    assert upstream.asked == []


async def test_a_body_however_deep_holds_up_nothing(open_tunnel: Any, upstream: Any) -> None:
    tunnel = await open_tunnel()
    async with make_client() as client:
        for depth in (300, 100_000):
            body = b'{"input":' + b"[" * depth + b"]" * depth + b"}"
            assert (await client.post(tunnel.base_url + RESPONSES, content=body)).status_code == 400
    assert upstream.asked == []


@pytest.mark.parametrize(
    ("path", "documented"),
    [
        ("/v1/responses", {"stream", *response_create_params.ResponseCreateParamsBase.__annotations__}),
        ("/v1/chat/completions", {"stream", *completion_create_params.CompletionCreateParamsBase.__annotations__}),
        ("/v1/messages", {"stream", *message_create_params.MessageCreateParamsBase.__annotations__}),
    ],
)
def test_a_field_passes_because_its_dialect_has_it_or_is_a_switch_of_known_programs(
    path: str, documented: set[str]
) -> None:
    switches = {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "stop",
    }
    switches |= {"chat_template_kwargs", "client_metadata", "reasoning", "thinking", "enable_thinking"}
    assert DIALECTS[path].allowed <= documented | switches
    assert not DIALECTS[path].allowed & DIALECTS[path].refused.keys()
