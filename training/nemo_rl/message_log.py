"""The message log of a result, as NeMo-RL's actor gives it: messages of tensors, and the result with text for ids.

Source  NVIDIA-NeMo/RL, `_postprocess_nemo_gym_to_nemo_rl_result`.
Shapes  `token_ids` int64; of an assistant's message `generation_logprobs` float32, one per id, and its two flags.
        Contents are empty: NeMo-RL trains on ids.
Errors  RefusedResultError of `postprocess`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from paddock.training.core.flaws import FlawRules
from paddock.training.nemo_rl.postprocess import postprocess
from paddock.training.nemo_rl.records import ProcessedResult, Result
from paddock.types import JsonObject


class IdDecoder(Protocol):
    """The part of a tokenizer that is used: it decodes ids."""

    def batch_decode(self, sequences: list[list[int]]) -> list[str]: ...


class TensorMakers(NamedTuple):
    """Functions that make the arrays of a batch: ids int64 `[ids]`, log-probs float32 `[ids]`."""

    ids: Callable[[list[int]], Any]
    log_probs: Callable[[list[float]], Any]


def torch_tensors() -> TensorMakers:
    import torch

    return TensorMakers(
        lambda ids: torch.tensor(ids, dtype=torch.int64), lambda values: torch.tensor(values, dtype=torch.float32)
    )


def to_message_log(result: Result, detection: FlawRules, tokenizer: IdDecoder, tensors: TensorMakers) -> JsonObject:
    """One row's entry of the stream. The result is changed: its ids become text."""
    messages = _messages(postprocess(result, detection), tensors)
    items = [item for item in result["response"]["output"] if item.get("generation_token_ids")]
    prompts = tokenizer.batch_decode([item.pop("prompt_token_ids") for item in items])
    answers = tokenizer.batch_decode([item.pop("generation_token_ids") for item in items])
    for item, prompt, answer in zip(items, prompts, answers, strict=True):
        del item["generation_log_probs"]
        item |= {"prompt_str": prompt, "generation_str": answer}
    return {"message_log": messages, "input_message_log": messages[:1], "full_result": result}


def _messages(processed: ProcessedResult, tensors: TensorMakers) -> list[JsonObject]:
    messages: list[JsonObject] = []
    for message in processed.messages:
        entry: JsonObject = {"role": message.role, "content": "", "token_ids": tensors.ids(message.token_ids)}
        if message.generation_log_probs is not None:
            entry["generation_logprobs"] = tensors.log_probs(message.generation_log_probs)
            entry["is_invalid_tool_call"] = message.is_invalid_tool_call
            entry["has_malformed_thinking"] = message.has_malformed_thinking
        messages.append(entry)
    return messages
