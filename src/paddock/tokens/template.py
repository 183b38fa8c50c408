"""A model's chat template: messages and tools to the text of a prompt.

Source  Jinja in an immutable sandbox, with what Hugging Face's `apply_chat_template` gives templates: blocks trimmed,
        loop controls, `tojson` that escapes neither HTML nor other scripts, `raise_exception`, `strftime_now`,
        `{% generation %}` (which marks a stretch and writes nothing). Messages are what vLLM's chat endpoint makes of a
        request before it renders, so that equal requests give equal ids; but content is a list of parts only where a
        template takes nothing else, as in `apply_chat_template`.
Shapes  messages and tools are those of a Chat Completions request, in which of its forms each template is tried at
        construction (`forms.py`). Content that is null becomes "" (beside calls null, where the template wants that);
        text parts are joined by newlines, empty ones left out, unless the template takes parts; reasoning is there
        under both of its names; a call's arguments are an object where their string holds one, else that string (an
        empty one: {}), unless the template takes strings; a `developer` speaks as `system` where the template knows
        none.
Errors  ConfigError `template_invalid`, with the line, for a source that doesn't compile. RequestError
        `template_refused`, in the template's own words, where it raises; `content_unsupported` for content that is no
        text.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from paddock.errors import ConfigError, RequestError
from paddock.tokens.forms import Forms, find_forms
from paddock.types import JsonObject
from paddock.types.responses import output_items

_TEXT_TYPES = ("text", "input_text", "output_text", "refusal", "thinking")
_SHORT_ID_CHARS = 9


def with_single_system(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Messages of which some are a developer's, for a template that doesn't know that role: what developers and systems
    say, at the start."""
    if all(message.get("role") != "developer" for message in messages):
        return list(messages)
    spoken = [_as_system(message) for message in messages]
    systems = [message for message in spoken if message.get("role") == "system"]
    if len(systems) == 1 and spoken[0] is systems[0]:
        return spoken
    contents = [_content(message.get("content"), parts=False) for message in systems]
    merged = {"role": "system", "content": "\n\n".join(str(content) for content in contents if content)}
    return [merged, *(message for message in spoken if message.get("role") != "system")]


def with_empty_arguments(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Arguments that are no object, which some templates can't write, become {}; `messages`: as templates get them."""
    return [
        {**message, "tool_calls": [_with_object(call) for call in message["tool_calls"]]}
        if "tool_calls" in message
        else message
        for message in messages
    ]


def with_short_ids(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Ids of calls as nine letters and digits, the same for a call and its result."""
    shortened: list[JsonObject] = []
    for message in messages:
        changed = dict(message)
        if isinstance(message.get("tool_call_id"), str):
            changed["tool_call_id"] = _short_id(message["tool_call_id"])
        if message.get("tool_calls"):
            changed["tool_calls"] = [
                {**call, "id": _short_id(str(call.get("id", "")))} for call in output_items(message["tool_calls"])
            ]
        shortened.append(changed)
    return shortened


def _message(message: JsonObject, forms: Forms) -> JsonObject:
    """A chat message as the template takes it; `forms` are the template's."""
    role = str(message.get("role", ""))
    parts = ("system" if role == "developer" else role) in forms.parts
    if role == "developer" and not forms.developer:
        role = "system"
    out: JsonObject = {"role": role, "content": _content(message.get("content"), parts=parts)}
    if role == "assistant":
        calls = output_items(message.get("tool_calls") or [])
        if calls:
            out["tool_calls"] = [_call(call, forms) for call in calls]
            if forms.null_content and not out["content"]:
                out["content"] = None
        reasoning = message.get("reasoning")
        reasoning = message.get("reasoning_content") if reasoning is None else reasoning
        if reasoning is not None:
            out["reasoning"] = out["reasoning_content"] = reasoning
    if role == "tool" and "tool_call_id" in message:
        out["tool_call_id"] = message["tool_call_id"]
    if isinstance(message.get("name"), str):
        out["name"] = message["name"]
    return out


def _content(content: Any, *, parts: bool) -> str | list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if parts else content
    texts = [_text(part) for part in (() if content is None else content)]
    if parts:
        return [{"type": "text", "text": text} for text in texts]
    return "\n".join(text for text in texts if text)


def _text(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, dict) else type(part).__name__
    text = part.get("refusal" if kind == "refusal" else "thinking" if kind == "thinking" else "text")
    if kind not in _TEXT_TYPES or not isinstance(text, str):
        raise RequestError(f"content of type {kind!r}: exact ids are of text alone", kind="content_unsupported")
    return text


def _call(call: JsonObject, forms: Forms) -> JsonObject:
    function = call.get("function")
    function = dict(function) if isinstance(function, dict) else {}
    given = function.get("arguments") or {}
    if forms.argument_strings:
        function["arguments"] = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    else:
        function["arguments"] = _arguments(given)
    return {**call, "type": "function", "function": function}


def _arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        value = json.loads(given)  # the reader that engines use: it takes NaN, and keeps long integers
    except (ValueError, RecursionError):
        return given
    return value if isinstance(value, dict) else given


def _with_object(call: JsonObject) -> JsonObject:
    function = call["function"]
    return call if isinstance(function["arguments"], dict) else {**call, "function": {**function, "arguments": {}}}


def _tool(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    given = function if isinstance(function, dict) else {}
    spec: JsonObject = {key: given.get(key) for key in ("name", "description", "parameters")}
    if given.get("strict") is not None:
        spec["strict"] = given["strict"]
    return {"type": "function", "function": spec}


def _as_system(message: JsonObject) -> JsonObject:
    return {**message, "role": "system"} if message.get("role") == "developer" else message


def _short_id(given: str) -> str:
    if len(given) == _SHORT_ID_CHARS and given.isascii() and given.isalnum():
        return given
    return hashlib.sha256(given.encode(errors="surrogatepass")).hexdigest()[:_SHORT_ID_CHARS]


class ChatTemplate:
    """The chat template of one model. `variables`: strings that it may name, such as `bos_token`; `clock`: its date."""

    def __init__(
        self,
        source: str,
        variables: Mapping[str, str],
        *,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.source = source
        self.variables = dict(variables)
        environment = _environment(clock)
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ConfigError(
                f"chat template, line {error.lineno}: {error.message}", kind="template_invalid"
            ) from error
        except Exception as error:  # jinja works out constants as it compiles
            raise ConfigError(f"chat template: {type(error).__name__}: {error}", kind="template_invalid") from error
        named = any(constant.value == "developer" for constant in environment.parse(source).find_all(nodes.Const))
        self.forms = find_forms(self._probe, names_developer=named)

    def render(
        self,
        messages: Sequence[JsonObject],
        *,
        tools: Sequence[JsonObject] | None,
        generation_prompt: bool,
        arguments: Mapping[str, Any],
    ) -> str:
        """`arguments`: more variables, a request's `chat_template_kwargs`."""
        given = [_message(message, self.forms) for message in messages]
        variables = self._variables(tools, arguments=arguments, generation_prompt=generation_prompt)
        try:
            return self._template.render(messages=given, **variables)
        except Exception as error:
            spare = given if self.forms.argument_strings else with_empty_arguments(given)
            if spare == given:
                raise _refused(error) from error
        try:
            return self._template.render(messages=spare, **variables)
        except Exception as error:
            raise _refused(error) from error

    def _probe(self, messages: Sequence[JsonObject], tools: list[JsonObject] | None, forms: Forms) -> str:
        given = [_message(message, forms) for message in messages]
        return self._template.render(messages=given, **self._variables(tools, arguments={}, generation_prompt=True))

    def _variables(
        self, tools: Sequence[JsonObject] | None, *, generation_prompt: bool, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            **self.variables,
            "documents": None,
            **arguments,
            "tools": [_tool(tool) for tool in tools] if tools else None,
            "add_generation_prompt": generation_prompt,
        }


def _refused(error: Exception) -> RequestError:
    words = error.message if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
    return RequestError(f"chat template: {words}", kind="template_refused")


def _environment(clock: Callable[[], datetime]) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )  # no HTML comes of it, so nothing is escaped
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: clock().strftime(form)
    return environment


class _Generation(Extension):
    """`{% generation %}`: its body, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if isinstance(separators, list):  # a template may write it so
        separators = (separators[0], separators[1])
    return _encoder(ensure_ascii, indent, separators, sort_keys).encode(value)


@lru_cache(maxsize=64)
def _encoder(
    ensure_ascii: bool, indent: int | None, separators: tuple[str, str] | None, sort_keys: bool
) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)
