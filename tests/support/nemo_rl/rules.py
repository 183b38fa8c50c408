"""What NeMo-RL's chat server asks of a request, and how it fails one that breaks a rule.

Source  NVIDIA-NeMo/RL, `nemo_rl/models/generation/vllm/vllm_worker_async.py`, its route `/v1/chat/completions`.
Rules   top_k unset or -1; top_p set; temperature and top_p exactly the trainer's pair, or that of its validation;
        `top_logprobs` set where log-probs and token ids are asked for; one answer; a prompt that leaves room, as the
        template writes it (400) and as it is spliced (500).
Errors  FailedError: with status 500 and no word of why where the real one asserts, else with vLLM's error body.
"""

from typing import Any, NamedTuple

from paddock.types import JsonObject


class Sampling(NamedTuple):
    """What the trainer's config says."""

    temperature: float
    top_p: float
    val_temperature: float | None = None
    """None: validation samples as training does."""
    val_top_p: float | None = None

    @property
    def pairs(self) -> tuple[tuple[float, float], tuple[float, float]]:
        validation = (
            self.temperature if self.val_temperature is None else self.val_temperature,
            self.top_p if self.val_top_p is None else self.val_top_p,
        )
        return (self.temperature, self.top_p), validation


class FailedError(Exception):
    """An error answer. `why`: the rule that was broken, which the answer to a failed assertion does not tell."""

    def __init__(self, status: int, why: str, kind: str | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.kind = kind
        """Of the error; None: the answer is a text, as for every exception that nobody caught."""

    @property
    def body(self) -> JsonObject:
        return {"error": {"message": self.why, "type": self.kind, "param": None, "code": self.status}}


def assert_or_fail(holds: bool, why: str) -> None:
    """A failed assertion is a 500."""
    if not holds:
        raise FailedError(500, why)


def refused(why: str) -> FailedError:
    return FailedError(400, why, "invalid_request_error")


def require_answerable(body: JsonObject, sampling: Sampling, model: str) -> None:
    """All that can be said before the prompt is rendered."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise FailedError(422, "messages: a list of messages is needed", "validation")
    assert_or_fail(body.get("top_k") in (None, -1), f"top_k is {body.get('top_k')}, and has to be unset or -1")
    assert_or_fail(body.get("top_p") is not None, "top_p has to be set")
    pair = (body.get("temperature"), body.get("top_p"))
    assert_or_fail(pair in sampling.pairs, f"temperature and top_p are {pair}, and have to be one of {sampling.pairs}")
    if body.get("model") != model:
        raise FailedError(404, f"The model `{body.get('model')}` does not exist.", "NotFoundError")
    if body.get("n") not in (None, 1):
        raise refused("n: one answer at a time")
    if asks_for_tokens(body) and body.get("top_logprobs") is None:
        raise refused("`top_logprobs` must be set when token information is asked for")


def asks_for_tokens(body: JsonObject) -> bool:
    """Token ids come with log-probs, unless a request says that it does not want them."""
    return bool(body.get("logprobs")) and body.get("return_tokens_as_token_ids") is not False


def required_prefix(body: JsonObject) -> list[int] | None:
    """The ids that the prompt has to begin with: given as such, or on the last message that has any."""
    given = body.get("required_prefix_token_ids")
    if given is not None:
        return list(given)
    for message in reversed(body["messages"]):
        if "prompt_token_ids" in message:
            assert_or_fail(
                "generation_token_ids" in message, "a message has prompt_token_ids, but no generation_token_ids"
            )
            return [*message["prompt_token_ids"], *message["generation_token_ids"]]
    return None


def require_room(body: JsonObject, rendered: int, max_model_len: int) -> None:
    """`rendered`: tokens of the prompt as the template writes it: with a budget, one more has to fit."""
    if rendered + (requested_budget(body) is not None) > max_model_len:
        raise refused(
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt contains {rendered} "
            "input tokens. Please reduce the length of the input prompt."
        )


def budget(body: JsonObject, length: int, max_model_len: int) -> int:
    """Tokens of the answer. `length`: of the spliced prompt; one that leaves no room is an exception that nobody
    catches, but where it is as long as the context and nobody said how many."""
    asked = requested_budget(body)
    room = max_model_len - length
    if room == 0 and asked is None:
        raise refused("max_tokens must be at least 1, got 0.")
    assert_or_fail(room > 0, f"the prompt has {length} tokens, and leaves no room in {max_model_len}")
    return room if asked is None else min(asked, room)


def requested_budget(body: JsonObject) -> int | None:
    asked: Any = body.get("max_completion_tokens")
    asked = body.get("max_tokens") if asked is None else asked
    return None if asked is None else int(asked)
