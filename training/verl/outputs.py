"""Samples of a rollout as the token fields of verl's `AgentLoopOutput`.

Split   the prompt is what stands before the first id that is trained on, but at most `prompt_length` ids; verl has no
        room for more, and what is left of it begins the response, masked. So no id is lost at the front.
Experts a row for each id from the prompt's first on; verl fills up those that no pass went over.
Cut     ids, mask and log-probs of the response end together at `response_length`; verl checks none of their lengths.
"""

from typing import Any, NamedTuple

from paddock.tokens.export import Sample
from paddock.training.core.experts import expert_array
from paddock.training.verl.engine import global_steps


class TokenFields(NamedTuple):
    """One sample as verl takes it; the fields of the response have one entry for each of its ids."""

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    """1 where the id is trained on."""
    response_logprobs: list[float]
    """Of the sampling distribution where the mask is 1, else 0."""
    cut: int = 0
    """Ids at the end that verl has no room for."""
    routed_experts: Any = None
    """Array of the experts of prompt and response; None: not recorded."""

    @property
    def trained(self) -> int:
        """How many ids are trained on."""
        return sum(self.response_mask)


class StepSpan(NamedTuple):
    """The steps of verl whose weights sampled a rollout."""

    first: int
    last: int


def token_fields(sample: Sample, *, prompt_length: int, response_length: int) -> TokenFields:
    """The fields of a sample. `prompt_length` and `response_length`: verl's, in tokens."""
    start = max(1, min(sample.prompt_length, prompt_length))
    end = min(len(sample.ids), start + response_length)
    experts = None if sample.routed_experts is None else expert_array(sample.routed_experts)[:end]
    return TokenFields(
        prompt_ids=sample.ids[:start],
        response_ids=sample.ids[start:end],
        response_mask=sample.loss_mask[start:end],
        response_logprobs=sample.log_probs[start:end],
        cut=len(sample.ids) - end,
        routed_experts=experts,
    )


def placeholder(token: int) -> TokenFields:
    """Fields of a rollout with nothing to train on, for a worker that needs some."""
    return TokenFields([token], [token], [0], [0.0])


def step_span(samples: list[Sample]) -> StepSpan | None:
    """The steps whose weights sampled what is trained on; None: unknown, of a part of it at least."""
    spans = [global_steps(span.weight_version) for sample in samples for span in sample.spans if span.trained]
    known = [span for span in spans if span is not None]
    if not known or len(known) < len(spans):
        return None
    return StepSpan(min(first for first, _ in known), max(last for _, last in known))
