"""Prompts in exact ids: a whole one, or what is new since a recorded turn.

Law     what was sampled is never tokenised again: a continued prompt is the record's ids and then `after`'s, which are
        the template's own text between two answers. Where the template keeps the past as it was sampled, the text of
        both together is the template's rendering of the whole conversation. A stop that was sampled stays in the
        record: it stands for the text that ends answers. A stop that is the mark of a next message (`message_end`)
        stands for that mark alone: before any other the template's own text comes whole, as behind an answer that was
        cut.
Cost    of `after`: the new messages and the tool definitions are rendered; only the new text is tokenised.
Errors  ConfigError `template_unsupported`, at construction; RequestError `template_refused`, `template_unsupported`,
        `content_unsupported`.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from paddock.tokens.messages import with_one_system
from paddock.tokens.probes import find_traits
from paddock.tokens.template import ChatTemplate
from paddock.tokens.turn_suffix import TurnSuffixes
from paddock.tokens.vocabulary import Vocabulary
from paddock.types import JsonObject

_NONE: Mapping[str, Any] = MappingProxyType({})


class Prompter:
    """Of one model. `arguments`: of the template, for all requests; a request's own win."""

    def __init__(self, template: ChatTemplate, vocabulary: Vocabulary, *, arguments: Mapping[str, Any] = _NONE) -> None:
        self._template = template
        self._vocabulary = vocabulary
        self._arguments = dict(arguments)
        self._endings = TurnSuffixes(
            template, vocabulary.stop_texts, self._arguments, special_texts=tuple(vocabulary.mark_ids)
        )
        self._stop_texts = {token_id: text for text, token_id in vocabulary.stops.items()}
        self.traits = find_traits(
            template,
            self._endings.head,
            stop_texts=vocabulary.stop_texts,
            bos=vocabulary.special_texts.get("bos_token"),
            arguments=self._arguments,
            needs_tools=self._endings.needs_tools,
        )
        """With the arguments for all requests."""

    @property
    def knows_developer(self) -> bool:
        """Else a developer speaks as the system, at the start of a prompt that is whole."""
        return self._template.forms.developer

    def whole(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject] | None = None,
        arguments: Mapping[str, Any] = _NONE,
    ) -> list[int]:
        """The prompt of a conversation of which nothing is recorded."""
        return self._vocabulary.encode(self.text(messages, tools, arguments))

    def text(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject] | None = None,
        arguments: Mapping[str, Any] = _NONE,
    ) -> str:
        """The template's own, of a whole conversation."""
        given = messages if self.knows_developer else with_one_system(messages)
        return self._template.render(
            self._endings.named(given), tools=tools, generation_prompt=True, arguments={**self._arguments, **arguments}
        )

    def after(
        self,
        last_ids: Sequence[int],
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject] | None = None,
        arguments: Mapping[str, Any] = _NONE,
        *,
        names: Mapping[str, str] = _NONE,
    ) -> list[int]:
        """Ids to append to a turn that sampled `last_ids` (their end is enough), for the answer to new messages.

        `names`: of the tools whose results come, by id of the call; for templates that write them beside the result.
        """
        ending = self._endings.after(messages, tools=tools, arguments={**self._arguments, **arguments}, names=names)
        sampled = self._stop_texts.get(last_ids[-1]) if last_ids else None
        if not ending.end_text:
            if sampled is not None and ending.text.startswith(sampled):
                return self._behind(sampled, ending.text.removeprefix(sampled))
            return self._vocabulary.encode(ending.text)
        ids = self._behind(ending.end_text, ending.text)
        ended = sampled is not None and sampled not in self._endings.openers
        return ids if ended else [self._vocabulary.mark_ids[ending.end_text], *ids]

    def _behind(self, mark: str, text: str) -> list[int]:
        """Ids of a text that stands behind a mark: white space may belong to it."""
        ids = self._vocabulary.encode(mark + text)
        return ids[1:] if ids[:1] == [self._vocabulary.mark_ids[mark]] else self._vocabulary.encode(text)
