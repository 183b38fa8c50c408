"""What NeMo-RL's chat server is sent so that a prompt goes on in recorded ids, and whether it did.

Source  NVIDIA-NeMo/RL, `vllm_worker_async.py` and `openai_server_utils.py` (`replace_prefix_tokens`).
Splice  the last assistant message brings the ids of its turn's prompt and answer. The server renders all messages, and
        those up to the last assistant's, counts the end tokens of the latter, cuts the former at that many, and puts
        the ids before what is left. So nothing of the model's may stand after that message, and all that came after
        the turn has to.
Room    a prompt that leaves none as the template writes it is refused; one that leaves none only as it is spliced makes
        the server fail without a word, and `/tokenize` has to be asked.
Law     only ids of the turn that the request continues are sent, on that turn's own message; a history that says more
        in the model's name is sent without ids, and starts a branch. A prompt that does not begin with the ids that
        were sent is a broken splice: its turn continues nothing, and says so.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from paddock.server.dialects import Conversation, chat_messages
from paddock.server.dialects.items import CALLS
from paddock.tokens import Placement, PrefixMatch, TurnIndex
from paddock.types import JsonObject
from paddock.types.responses import item_type

_OF_PROMPTS = ("model", "messages", "tools", "chat_template_kwargs")


class Splice(NamedTuple):
    """A history as it is sent."""

    messages: list[JsonObject]
    turn: str | None = None
    """Whose ids are sent; None: nobody's."""
    ids: list[int] | None = None
    """With which the prompt has to begin."""

    def placed(self, prompt_ids: list[int]) -> Placement | None:
        """Where the answer's prompt hangs; None: the splice is broken. Only where ids were sent."""
        assert self.ids is not None
        end = len(self.ids)
        return Placement(self.turn, prompt_ids[end:]) if prompt_ids[:end] == self.ids else None


class PromptLength(NamedTuple):
    """Of a prompt."""

    tokens: int
    limit: int
    """Of prompt and answer."""


def tokenize_body(body: bytes) -> bytes:
    """What of a chat request makes its prompt."""
    asked = orjson.loads(body)
    return orjson.dumps({key: asked[key] for key in _OF_PROMPTS if key in asked})


def read_prompt_length(told: bytes) -> PromptLength | None:
    """By the answer of `/tokenize`; None: it does not say."""
    try:
        found = orjson.loads(told)
        return PromptLength(int(found["count"]), int(found["max_model_len"]))
    except (ValueError, TypeError, KeyError):
        return None


def splice(told: Conversation, matched: PrefixMatch, index: TurnIndex | None, fields: Iterable[str]) -> Splice:
    """`index`: of the rollout; None: there is none. `fields`: of a message, in which reasoning is sent."""
    turn, new = matched.turn, matched.environment
    known = None if index is None or turn is None or any(map(_is_own, new)) else _ids(index, turn)
    fields = tuple(fields)
    if known is None or index is None or turn is None:
        return Splice(chat_messages(told.items, reasoning_fields=fields))
    messages = chat_messages(_before(told.items, new), reasoning_fields=fields)
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})  # it said nothing, and its client does not tell that
    answer = index.by_id[turn]
    assert answer.sampled_ids is not None
    messages[-1] |= {
        "prompt_token_ids": known[: len(known) - len(answer.sampled_ids)],
        "generation_token_ids": answer.sampled_ids,
        "generation_log_probs": answer.log_probs,
    }
    return Splice([*messages, *chat_messages(new, reasoning_fields=fields)], turn, known)


def _ids(index: TurnIndex, turn: str) -> list[int] | None:
    try:
        return index.full_ids(turn)
    except ValueError:
        return None  # a record that was begun with another engine


def _before(items: Sequence[JsonObject], new: Sequence[JsonObject]) -> list[JsonObject]:
    """`items` without the new ones: their end, and outputs that are told between the calls of the turn."""
    left = [*new]
    found: list[JsonObject] = []
    for item in reversed(items):
        if left and item == left[-1]:
            left.pop()
        else:
            found.append(item)
    found.reverse()
    return found


def _is_own(item: JsonObject) -> bool:
    """The model's, whoever says it."""
    kind = item_type(item)
    return kind == "reasoning" or kind in CALLS or (kind == "message" and item.get("role") == "assistant")
