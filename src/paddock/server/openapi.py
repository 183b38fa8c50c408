"""What a server's OpenAPI page says of its routes: the bodies they take and give, with an example to send.

Shapes  a row's own keys are those of the server's `task_type`; `ResourcesServer.example` is the example shown. A
        route whose bodies are the Responses, Chat or Messages API's names the keys that matter here and no more.
Law     schemas are for readers: nothing is checked against them, and every object may hold further keys.
"""

from typing import Any

from pydantic import BaseModel

from paddock.http import (
    AGGREGATE,
    CHAT,
    MESSAGES,
    PLAIN_CHAT,
    PLAIN_MESSAGES,
    PLAIN_RESPONSES,
    RESPONSES,
    RUN,
    SCRIPT,
    SEED,
    SETTINGS,
    TURNS,
    VERIFY,
    VERIFY_SESSION,
    AggregateMetrics,
    AggregateRequest,
    ReplayScript,
    Route,
)
from paddock.server.base import ResourcesServer, Server
from paddock.types import Failure, JsonObject, Rollout, RolloutSettings, Session, TurnRecord, Verdict
from paddock.types.responses import MODEL_PATCH

OBJECT: JsonObject = {"type": "object"}
PARAMS: JsonObject = {
    "type": "object",
    "description": "A Responses API request.",
    "required": ["input"],
    "properties": {
        "input": {"description": "A text, or a list of items.", "anyOf": [{"type": "string"}, {"type": "array"}]},
        "instructions": {"type": "string"},
        "tools": {"type": "array", "items": OBJECT},
        "max_output_tokens": {"type": "integer"},
        "temperature": {"type": "number"},
        "stream": {"type": "boolean", "default": False},
    },
}
CHAT_PARAMS: JsonObject = {
    "type": "object",
    "description": "A Chat Completions request.",
    "required": ["messages"],
    "properties": {
        "messages": {"type": "array", "items": OBJECT},
        "tools": {"type": "array", "items": OBJECT},
        "max_completion_tokens": {"type": "integer"},
        "temperature": {"type": "number"},
        "stream": {"type": "boolean", "default": False},
    },
}
MESSAGES_PARAMS: JsonObject = {
    "type": "object",
    "description": "A Messages request.",
    "required": ["messages", "max_tokens"],
    "properties": {
        "messages": {"type": "array", "items": OBJECT},
        "system": {"anyOf": [{"type": "string"}, {"type": "array"}]},
        "tools": {"type": "array", "items": OBJECT},
        "max_tokens": {"type": "integer"},
        "temperature": {"type": "number"},
        "stream": {"type": "boolean", "default": False},
    },
}
RESPONSE: JsonObject = {
    "type": "object",
    "description": "A Responses API response; `output` holds its items.",
    "properties": {"output": {"type": "array", "items": OBJECT}},
}
_TEXT: JsonObject = {"type": ["string", "null"]}
_PARTS: JsonObject = {
    "type": ["string", "array"],
    "items": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"text": _TEXT}}]},
}
_PARTS_OR_NULL: JsonObject = {**_PARTS, "type": ["string", "array", "null"]}
_ITEM: JsonObject = {
    "type": "object",
    "properties": {"type": {"type": "string", "minLength": 1}},
    "anyOf": [{"required": ["type"]}, {"required": ["role", "content"], "properties": {"content": _PARTS}}],
    "allOf": [
        {
            "if": {"required": ["type"], "properties": {"type": {"const": kind}}},
            "then": {"required": required, "properties": properties},
        }
        for kind, required, properties in (
            ("message", ["content"], {"content": _PARTS}),
            ("reasoning", [], {"summary": _PARTS_OR_NULL, "content": _PARTS_OR_NULL}),
            ("function_call", ["name"], {"name": {"type": "string"}, "arguments": _TEXT}),
            ("custom_tool_call", ["name"], {"name": {"type": "string"}, "input": _TEXT}),
        )
    ],
}
JUDGED_RESPONSE: JsonObject = {
    "type": "object",
    "description": "A Responses API response; `output` holds its items. One with a `model_patch` may go without.",
    "properties": {
        "output": {"type": "array", "items": _ITEM},
        "status": {"not": {"const": "failed"}},
        "error": {"type": "null"},
    },
    "anyOf": [{"required": ["output"]}, {"required": [MODEL_PATCH]}],
}
AGENT_REF: JsonObject = {
    "type": "object",
    "description": "Which agent runs the row.",
    "properties": {"type": {"type": "string"}, "name": {"type": "string"}},
}
MESSAGES_EXAMPLE: JsonObject = {"messages": [{"role": "user", "content": "Say hello."}]}
INPUT_EXAMPLE: JsonObject = {"input": "Say hello."}


def operation(route: Route[Any, Any], server: Server[Any]) -> JsonObject:
    """What FastAPI can't know of a route: its parameters, bodies and errors."""
    failed = _object({"error": schema_of(Failure)})
    responses = {
        "200": {"content": {"application/json": {"schema": _reply(route, server)}}},
        "default": {"description": "An error", "content": {"application/json": {"schema": failed}}},
    }
    extra: JsonObject = {"responses": responses}
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    if names:
        extra["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if route.method in ("POST", "PUT"):
        media = {"schema": _request(route, server), **_example(route, server)}
        extra["requestBody"] = {"required": True, "content": {"application/json": media}}
    return extra


def schema_of(model: type[BaseModel]) -> JsonObject:
    """A model's JSON schema in one piece, without references."""
    schema = model.model_json_schema()
    inner: JsonObject = schema.pop("$defs", {})

    def whole(node: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [whole(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" not in node:
            return {key: whole(value, inside) for key, value in node.items()}
        name = str(node["$ref"]).rpartition("/")[2]
        return OBJECT if name in inside else whole(inner[name], (*inside, name))

    inlined: JsonObject = whole(schema, ())
    return inlined


def _request(route: Route[Any, Any], server: Server[Any]) -> JsonObject:
    if route in (SEED, RUN):
        return _row(server)
    if route in (VERIFY, VERIFY_SESSION):
        row = _row(server)
        return {
            **row,
            "required": [*row["required"], "response"],
            "properties": {**row["properties"], "response": JUDGED_RESPONSE},
        }
    if route in (RESPONSES, PLAIN_RESPONSES):
        return PARAMS
    if route in (CHAT, PLAIN_CHAT):
        return CHAT_PARAMS
    if route in (MESSAGES, PLAIN_MESSAGES):
        return MESSAGES_PARAMS
    records: dict[Route[Any, Any], type[BaseModel]] = {
        AGGREGATE: AggregateRequest,
        SCRIPT: ReplayScript,
        SETTINGS: RolloutSettings,
    }
    record = records.get(route, route.request_type)
    return schema_of(record) if record is not None else OBJECT


def _reply(route: Route[Any, Any], server: Server[Any]) -> JsonObject:
    records: dict[Route[Any, Any], type[BaseModel]] = {
        SEED: Session,
        AGGREGATE: AggregateMetrics,
        TURNS: TurnRecord,
    }
    if route in records:
        return schema_of(records[route])
    if route in (VERIFY, VERIFY_SESSION):
        properties = _request(route, server)["properties"]
        return _object({**properties, "reward": {"type": "number"}, "verdict": schema_of(Verdict)})
    if route is RUN:
        own = schema_of(Rollout)["properties"]
        rollout = {key: own[key] for key in ("outcome", "verdict", "failure", "timing", "usage", "engine", "turns")}
        reward = {"type": "number", "description": "Not there where the outcome carries none."}
        row = _row(server)["properties"]
        return _object({**row, "response": RESPONSE, "reward": reward, "rollout": _object(rollout)})
    if route.reply_type is not None:
        return schema_of(route.reply_type)
    return RESPONSE if route in (RESPONSES, PLAIN_RESPONSES) else OBJECT


def _row(server: Server[Any]) -> JsonObject:
    task: JsonObject = schema_of(server.task_type) if isinstance(server, ResourcesServer) else {}
    own = task.get("properties", {})
    return {
        "type": "object",
        "required": ["responses_create_params", *task.get("required", [])],
        "properties": {"responses_create_params": PARAMS, "agent_ref": AGENT_REF, **own},
    }


def _example(route: Route[Any, Any], server: Server[Any]) -> JsonObject:
    if route in (RESPONSES, PLAIN_RESPONSES):
        return {"example": INPUT_EXAMPLE}
    if route in (CHAT, PLAIN_CHAT):
        return {"example": MESSAGES_EXAMPLE}
    if route in (MESSAGES, PLAIN_MESSAGES):
        return {"example": {"max_tokens": 1024, **MESSAGES_EXAMPLE}}
    if not isinstance(server, ResourcesServer) or not server.example or route not in (SEED, VERIFY):
        return {}
    hidden = ("response",) if route is SEED else ()
    return {"example": {key: value for key, value in server.example.items() if key not in hidden}}


def _object(properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties}
