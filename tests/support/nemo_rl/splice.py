"""A prompt of messages whose past is in given ids, as NeMo-RL's chat server makes it.

Source  NVIDIA-NeMo/RL, `nemo_rl/models/generation/openai_server_utils.py`.
Splice  all messages are rendered, for an answer; those up to the last assistant's are rendered too, as they stand. At
        the N-th end token of the former, where the latter has N, the former is cut; the given ids, without an end token
        at their end, take the place of what was before.
Errors  FailedError, 500: where the former has fewer end tokens, or the latter none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.nemo_rl.rules import assert_or_fail

from paddock.tokens import ChatTemplate, Vocabulary
from paddock.types import JsonObject


class Renderer:
    """Renders prompts of one model. `arguments` are the template's, under a request's own."""

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate, arguments: Mapping[str, Any]) -> None:
        self._vocabulary = vocabulary
        self._template = template
        self._arguments = dict(arguments)
        self.end = vocabulary.stops[vocabulary.special_texts["eos_token"]]
        """The one end token that is counted; other stop tokens are none."""

    def render(self, body: JsonObject) -> list[int]:
        """The prompt that the template alone makes."""
        return self._ids(body, body["messages"], generation_prompt=True)

    def splice(self, body: JsonObject, rendered_ids: list[int], given: list[int]) -> list[int]:
        """`rendered_ids`: the whole request's."""
        if not given:
            return rendered_ids
        messages = body["messages"]
        spoken = [nth for nth, message in enumerate(messages) if message.get("role") == "assistant"]
        told = messages[: spoken[-1] + 1] if spoken else messages
        count = self._ids(body, told, generation_prompt=False).count(self.end)
        ends = [place for place, token in enumerate(rendered_ids) if token == self.end]
        assert_or_fail(0 < count <= len(ends), f"end token {count} is none of the {len(ends)} of the whole prompt")
        kept = given[:-1] if given[-1] == self.end else given
        return kept + rendered_ids[ends[count - 1] :]

    def _ids(self, body: JsonObject, messages: Sequence[JsonObject], *, generation_prompt: bool) -> list[int]:
        arguments = {**self._arguments, **(body.get("chat_template_kwargs") or {})}
        text = self._template.render(
            messages, tools=body.get("tools"), generation_prompt=generation_prompt, arguments=arguments
        )
        return self._vocabulary.encode(text)
