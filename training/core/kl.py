"""How far a policy is from a reference, per token: k1, k2, k3.

Formula d = log-prob of the reference - log-prob, k1 = -d, k2 = d^2 / 2, k3 = exp(d) - 1 - d. `d` is bounded by
        `kl_input_clamp_value`, the outcome by `kl_output_clamp_value`.
Source  Schulman 2020, http://joschu.net/blog/kl-approx.html; NeMo-RL, `calculate_kl` and `ClippedPGLossFn`.
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
        difference = arrays.clamp(difference, -bound, bound)
    kl = estimate(difference, settings.reference_policy_kl_type, arrays)
    if settings.reference_policy_kl_gradient == "corrected":
        kl = weight * kl
    bound = settings.kl_output_clamp_value
    return kl if bound is None else arrays.clamp(kl, -bound, bound)
