"""How far a policy is from a reference, per token: k1, k2, k3.

Formula d = log-prob of the reference - log-prob, k1 = -d, k2 = d^2 / 2, k3 = exp(d) - 1 - d. `d` is bounded by
        `kl_input_clamp_value`, the outcome by `kl_output_clamp_value`.
Source  Schulman 2020, http://joschu.net/blog/kl-approx.html; NeMo-RL, `calculate_kl` and `ClippedPGLossFn`.
Reward  with `use_kl_in_reward` the estimate is a number that is taken off a token's reward (`token_advantages.py`), as
        in InstructGPT (arXiv 2203.02155); there is no such term in the loss then.
Weight  the tokens come from the policy itself, so a KL term's gradient also goes through their probability (arXiv
        2506.09477). So the estimate is multiplied by exp(p - p without gradient), 1 in value, or, with
        `use_on_policy_kl_approximation`, by exp(p - engine's log-prob), which corrects for who sampled as well. Where d
        was bounded, that weight has no gradient. So corrected, k3 has the gradient of k2. `plain`
        (`reference_policy_kl_gradient`): no weight, as in the GRPO paper (arXiv 2402.03300).
"""

from paddock.training.core.arrays import A, Arrays
from paddock.training.core.loss_inputs import TrainedTokens
from paddock.training.core.loss_settings import KlEstimate, LossSettings


def estimate(difference: A, kind: KlEstimate, arrays: Arrays[A]) -> A:
    """The estimate of the KL divergence of each token. `difference` is d, `[tokens]`."""
    if kind == "k1":
        return -difference
    if kind == "k2":
        return difference * difference / 2
    return arrays.exp(difference) - 1 - difference


def penalty(tokens: TrainedTokens[A], settings: LossSettings, arrays: Arrays[A]) -> A:
    """The KL term of each token, `[tokens]`, before it is multiplied by `reference_policy_kl_penalty`."""
    now, reference = tokens.log_probs, tokens.reference_log_probs
    if reference is None:
        raise ValueError("reference_policy_kl_penalty is above 0: the reference policy's log-probs are needed")
    sampler = tokens.engine_log_probs if settings.use_on_policy_kl_approximation else arrays.detach(now)
    weight = arrays.finite(arrays.exp(now - sampler))
    difference = reference - now
    bound = settings.kl_input_clamp_value
    if bound is not None:
        weight = arrays.where(arrays.within(difference, -bound, bound), weight, arrays.detach(weight))
    kl = _bounded_estimate(difference, settings, arrays)
    if settings.reference_policy_kl_gradient == "corrected":
        kl = weight * kl
    return _bounded(kl, settings.kl_output_clamp_value, arrays)


def reward_penalty(log_probs: A, reference: A, settings: LossSettings, arrays: Arrays[A]) -> A:
    """What is taken off the reward of each token, `[tokens]`: `reference_policy_kl_penalty` times the estimate.
    `log_probs` are the policy's before the step."""
    kl = _bounded_estimate(reference - log_probs, settings, arrays)
    return _bounded(kl, settings.kl_output_clamp_value, arrays) * settings.reference_policy_kl_penalty


def _bounded_estimate(difference: A, settings: LossSettings, arrays: Arrays[A]) -> A:
    bounded = _bounded(difference, settings.kl_input_clamp_value, arrays)
    return estimate(bounded, settings.reference_policy_kl_type, arrays)


def _bounded(values: A, bound: float | None, arrays: Arrays[A]) -> A:
    return values if bound is None else arrays.clamp(values, -bound, bound)
