"""A model's chat template: messages and tools to the text of a prompt.

Source  Jinja in an immutable sandbox, with what Hugging Face's `apply_chat_template` gives templates: blocks trimmed,
        loop controls, `tojson` that escapes neither HTML nor other scripts, `raise_exception`, `strftime_now`,
        `{% generation %}` (which marks a stretch and writes nothing).
Shapes  messages and tools are those of a Chat Completions request; `messages.py` says what templates get of them, in
        which of its forms each template is tried at construction (`forms.py`).
Errors  ConfigError `template_invalid`, with the line, for a source that doesn't compile. RequestError
        `template_refused`, in the template's own words, where it raises.
"""

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
from paddock.tokens.messages import template_messages, template_tools, with_empty_arguments
from paddock.types import JsonObject

_OF_DICTS = frozenset(dir(dict))
"""What a template gets of an object by name before it gets what is in it."""


class ChatTemplate:
    """Of one model. `variables`: strings that the template may name, such as `bos_token`; `clock`: its date."""

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
        named = any(each.value == "developer" for each in environment.parse(source).find_all(nodes.Const))
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
        given = template_messages(messages, self.forms)
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
        given = template_messages(messages, forms)
        return self._template.render(messages=given, **self._variables(tools, arguments={}, generation_prompt=True))

    def _variables(
        self, tools: Sequence[JsonObject] | None, *, generation_prompt: bool, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            **self.variables,
            "documents": None,
            **arguments,
            "tools": template_tools(tools),
            "add_generation_prompt": generation_prompt,
        }


def _refused(error: Exception) -> RequestError:
    words = error.message if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
    return RequestError(f"chat template: {words}", kind="template_refused")


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, which needs no exception to find what is in an object of JSON."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is not dict or attribute in _OF_DICTS:
            return super().getattr(obj, attribute)
        return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)


def _environment(clock: Callable[[], datetime]) -> ImmutableSandboxedEnvironment:
    environment = _Environment(
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
