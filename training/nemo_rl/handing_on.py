"""A result as NeMo-RL's actor hands it on: messages of tensors, and the result with text in place of ids.

Source  NVIDIA-NeMo/RL, `_postprocess_nemo_gym_to_nemo_rl_result`.
Shapes  `token_ids` int64; of an assistant's message `generation_logprobs` float32, one per id, and its two flags.
        Contents are empty: NeMo-RL trains on ids.
Errors  RefusedError of `postprocessing`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from paddock.training.core.flaws import FlawRules
from paddock.training.nemo_rl.postprocessing import postprocess
from paddock.training.nemo_rl.records import Processed, Result
from paddock.types import JsonObject


class Decoder(Protocol):
    """What is asked of a tokenizer."""

    def batch_decode(self, sequences: list[list[int]]) -> list[str]: ...


class Tensors(NamedTuple):
    """Makers of what goes into batches."""

    ids: Callable[[list[int]], Any]
    log_probs: Callable[[list[float]], Any]


def torch_tensors() -> Tensors:
    import torch

    return Tensors(
        lambda ids: torch.tensor(ids, dtype=torch.int64), lambda values: torch.tensor(values, dtype=torch.float32)
    )


def handed_on(result: Result, detection: FlawRules, tokenizer: Decoder, tensors: Tensors) -> JsonObject:
    """One row's part of the stream. The result is changed: its ids become text."""
    messages = _messages(postprocess(result, detection), tensors)
    items = [item for item in result["response"]["output"] if item.get("generation_token_ids")]
    prompts = tokenizer.batch_decode([item.pop("prompt_token_ids") for item in items])
    answers = tokenizer.batch_decode([item.pop("generation_token_ids") for item in items])
    for item, prompt, answer in zip(items, prompts, answers, strict=True):
        del item["generation_log_probs"]
        item |= {"prompt_str": prompt, "generation_str": answer}
    return {"message_log": messages, "input_message_log": messages[:1], "full_result": result}


def _messages(processed: Processed, tensors: Tensors) -> list[JsonObject]:
    found: list[JsonObject] = []
    for message in processed.messages:
        one: JsonObject = {"role": message.role, "content": "", "token_ids": tensors.ids(message.token_ids)}
        if message.generation_log_probs is not None:
            one["generation_logprobs"] = tensors.log_probs(message.generation_log_probs)
            one["is_invalid_tool_call"] = message.is_invalid_tool_call
            one["has_malformed_thinking"] = message.has_malformed_thinking
        found.append(one)
    return found
