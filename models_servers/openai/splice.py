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
from paddock.tokens import Placement, PrefixMatch, TurnIndex
from paddock.types import JsonObject
from paddock.types.responses import CALLS, item_type

_PROMPT_KEYS = ("model", "messages", "tools", "chat_template_kwargs")


class Splice(NamedTuple):
    """A history as the server is sent it."""

    messages: list[JsonObject]
    turn: str | None = None
    """The turn whose ids are sent; None: none are."""
    ids: list[int] | None = None
    """The ids with which the prompt has to begin."""

    def placement(self, prompt_ids: list[int]) -> Placement | None:
        """Where the answer's prompt stands in the record; None: the splice is broken. Only where ids were sent."""
        assert self.ids is not None
        end = len(self.ids)
        return Placement(self.turn, prompt_ids[end:]) if prompt_ids[:end] == self.ids else None


class PromptLength(NamedTuple):
    """The length of a prompt, and the longest that the model takes."""

    tokens: int
    limit: int
    """Longest sequence, prompt and answer together."""


def tokenize_body(body: bytes) -> bytes:
    """The body of `/tokenize` for a chat request: what makes its prompt."""
    request = orjson.loads(body)
    return orjson.dumps({key: request[key] for key in _PROMPT_KEYS if key in request})


def read_prompt_length(reply: bytes) -> PromptLength | None:
    """Read the answer of `/tokenize`; None: it does not say."""
    try:
        answer = orjson.loads(reply)
        return PromptLength(int(answer["count"]), int(answer["max_model_len"]))
    except (ValueError, TypeError, KeyError):
        return None


def splice(conversation: Conversation, matched: PrefixMatch, index: TurnIndex | None, fields: Iterable[str]) -> Splice:
    """`index`: the rollout's turns; None: there are none. `fields`: those of a message in which reasoning is sent."""
    turn, new = matched.turn, matched.environment
    ids = None if index is None or turn is None or any(map(_is_own, new)) else _ids(index, turn)
    fields = tuple(fields)
    if ids is None or index is None or turn is None:
        return Splice(chat_messages(conversation.items, reasoning_fields=fields))
    messages = chat_messages(_before(conversation.items, new), reasoning_fields=fields)
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})  # it said nothing, and its client left that out
    answer = index.by_id[turn]
    assert answer.sampled_ids is not None
    messages[-1] |= {
        "prompt_token_ids": ids[: len(ids) - len(answer.sampled_ids)],
        "generation_token_ids": answer.sampled_ids,
        "generation_log_probs": answer.log_probs,
    }
    return Splice([*messages, *chat_messages(new, reasoning_fields=fields)], turn, ids)


def _ids(index: TurnIndex, turn: str) -> list[int] | None:
    try:
        return index.full_ids(turn)
    except ValueError:
        return None  # the record was begun with another engine


def _before(items: Sequence[JsonObject], new: Sequence[JsonObject]) -> list[JsonObject]:
    """`items` without the new ones: their end, and outputs that stand between the calls of the turn."""
    remaining = [*new]
    before: list[JsonObject] = []
    for item in reversed(items):
        if remaining and item == remaining[-1]:
            remaining.pop()
        else:
            before.append(item)
    before.reverse()
    return before


def _is_own(item: JsonObject) -> bool:
    """Whether an item is of the assistant's role, whoever wrote it."""
    kind = item_type(item)
    return kind == "reasoning" or kind in CALLS or (kind == "message" and item.get("role") == "assistant")
