"""The rules of NeMo-RL's post-processing and grouping: one table, by stable name.

Source  NVIDIA-NeMo/RL at 7ea279a, in the file that a rule names: `gym` is `nemo_rl/environments/nemo_gym.py`,
        `rollouts` `nemo_rl/experience/rollouts.py`, `messages` `nemo_rl/data/llm_message_utils.py`, `grpo` and `utils`
        `nemo_rl/algorithms/*.py`, `server` its vLLM worker, `paddock` what our own form says besides.
Effect  what happens where a rule is broken. `rollout`: the actor raises in post-processing, and the rollouts of its
        batch that have not ended are lost. `batch`: the driver raises, and the group, the batch or the step is lost.
        `silent`: nothing is said; it trains on something else than is meant, or on nothing.
"""

from typing import Any, Literal, NamedTuple

from paddock.training.nemo_rl.records import Violation

Effect = Literal["rollout", "batch", "silent"]


class Rule(NamedTuple):
    """One thing that holds for each result, or for a group of them."""

    name: str
    source: str
    effect: Effect
    says: str
    """What holds."""


RULES = {
    rule.name: rule
    for rule in (
        Rule("result", "gym", "rollout", "a result has objects `response` and `responses_create_params`, items a list"),
        Rule("input", "gym", "silent", "`responses_create_params.input` is there: errors and effort levels read it"),
        Rule("token_fields", "gym", "rollout", "an item with sampled ids has its prompt's ids and log-probs, as lists"),
        Rule("integer_ids", "gym", "rollout", "ids are integers: other numbers make tensors that don't go together"),
        Rule("known_ids", "messages", "silent", "ids are of the vocabulary, 0 at least: the model has no other rows"),
        Rule("contiguous", "gym", "rollout", "a turn's prompt begins with all prompts and answers of turns before it"),
        Rule("new_prompt", "messages", "batch", "each turn has new prompt ids: an empty tensor is one of floats"),
        Rule("log_prob_numbers", "gym", "rollout", "log-probs are numbers, and none is NaN"),
        Rule("log_probs_finite", "grpo", "silent", "log-probs are finite: ratios of an infinite one mean nothing"),
        Rule("log_probs_length", "messages", "silent", "there is one log-prob per sampled id: others are shifted"),
        Rule("trainable", "gym", "rollout", "one item at least has sampled ids"),
        Rule("routed_experts", "gym", "rollout", "routes are [tokens, layers, k] of one width, with a row per token"),
        Rule("too_long", "grpo", "batch", "prompts and answers are no longer than the longest sequence"),
        Rule("overlong", "rollouts", "silent", "what a budget cut is as long as the longest sequence, or is masked"),
        Rule("reward", "rollouts", "batch", "the reward is a number"),
        Rule("reward_finite", "utils", "silent", "the reward is finite: NaN is the whole group's advantage then"),
        Rule("reward_components", "gym", "batch", "components are numbers, and sum to the reward within 1e-5"),
        Rule("instance_config", "rollouts", "batch", "`instance_config` is an object, or is not there"),
        Rule("mask_boolean", "rollouts", "silent", "`instance_config.mask_sample` is a boolean: any text is true"),
        Rule("mask_place", "rollouts", "silent", "a mask is in `instance_config`: at the top level none reads it"),
        Rule("metrics", "rollouts", "silent", "numbers at the top level are finite: they become averages"),
        Rule("agent_ref", "gym", "rollout", "an `agent_ref` has a `name`"),
        Rule("sampling", "server", "batch", "no top-k; temperature and top-p are those of training"),
        Rule("task_index", "rollouts", "batch", "`_ng_task_index` is an integer, on all results or on none"),
        Rule("group_complete", "rollouts", "batch", "a group has all its members, each once"),
        Rule("group_agent", "rollouts", "batch", "a group's members have one agent"),
        Rule("group_sampling", "server", "silent", "a group's members were sampled with one temperature and top-p"),
        Rule("group_prompt", "utils", "silent", "a group's members have one first prompt: groups are made by it"),
        Rule("group_alone", "utils", "silent", "two members at least are compared: of one the advantage is 0"),
        Rule("groups_apart", "utils", "silent", "groups have different first prompts: else they are one"),
        Rule("masked_apart", "paddock", "silent", "what failed has not its group's prompt: its reward is no baseline"),
    )
}
"""By name. Those of one result are in the order in which they are checked."""


def broken(rule: str, text: str, **where: Any) -> Violation:
    """KeyError for a rule that the table does not have."""
    return Violation(RULES[rule].name, text, **where)
