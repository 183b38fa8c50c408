"""The rules of NeMo-RL's post-processing and grouping: one table, by stable name.

Source  NVIDIA-NeMo/RL at 7ea279a, in the file that a rule names: `gym` is `nemo_rl/environments/nemo_gym.py`,
        `rollouts` `nemo_rl/experience/rollouts.py`, `messages` `nemo_rl/data/llm_message_utils.py`, `grpo` and `utils`
        `nemo_rl/algorithms/*.py`, `server` its vLLM worker, `paddock` what our own form says besides.
Effect  what happens where a rule is broken. `rollout`: the actor raises in post-processing, and the rollouts of its
        batch that have not ended are lost. `batch`: the driver raises, and the group, the batch or the step is lost.
        `silent`: there is no error; it trains on something else than is meant, or on nothing.
"""

from typing import Any, Literal, NamedTuple

from paddock.training.nemo_rl.records import Violation

Effect = Literal["rollout", "batch", "silent"]


class NemoRule(NamedTuple):
    """A rule that each result, or the results of a group, must keep."""

    name: str
    source: str
    effect: Effect
    says: str
    """The rule in words."""


RULES = {
    rule.name: rule
    for rule in (
        NemoRule(
            "result", "gym", "rollout", "a result has objects `response` and `responses_create_params`, items a list"
        ),
        NemoRule(
            "input", "gym", "silent", "`responses_create_params.input` is there: errors and effort levels read it"
        ),
        NemoRule(
            "token_fields", "gym", "rollout", "an item with sampled ids has its prompt's ids and log-probs, as lists"
        ),
        NemoRule(
            "integer_ids", "gym", "rollout", "ids are integers: other numbers make tensors that don't go together"
        ),
        NemoRule(
            "known_ids", "messages", "silent", "ids are of the vocabulary, 0 at least: the model has no other rows"
        ),
        NemoRule(
            "contiguous", "gym", "rollout", "a turn's prompt begins with all prompts and answers of turns before it"
        ),
        NemoRule("new_prompt", "messages", "batch", "each turn has new prompt ids: an empty tensor is one of floats"),
        NemoRule("log_prob_numbers", "gym", "rollout", "log-probs are numbers, and none is NaN"),
        NemoRule("log_probs_finite", "grpo", "silent", "log-probs are finite: ratios of an infinite one mean nothing"),
        NemoRule("log_probs_length", "messages", "silent", "there is one log-prob per sampled id: others are shifted"),
        NemoRule("trainable", "gym", "rollout", "one item at least has sampled ids"),
        NemoRule(
            "routed_experts", "gym", "rollout", "routes are [tokens, layers, k] of one width, with a row per token"
        ),
        NemoRule("too_long", "grpo", "batch", "prompts and answers are no longer than the longest sequence"),
        NemoRule(
            "overlong", "rollouts", "silent", "what a budget cut is as long as the longest sequence, or is masked"
        ),
        NemoRule("reward", "rollouts", "batch", "the reward is a number"),
        NemoRule("reward_finite", "utils", "silent", "the reward is finite: NaN is the whole group's advantage then"),
        NemoRule("reward_components", "gym", "batch", "components are numbers, and sum to the reward within 1e-5"),
        NemoRule("instance_config", "rollouts", "batch", "`instance_config` is an object, or is not there"),
        NemoRule("mask_boolean", "rollouts", "silent", "`instance_config.mask_sample` is a boolean: any text is true"),
        NemoRule("mask_place", "rollouts", "silent", "a mask is in `instance_config`: at the top level none reads it"),
        NemoRule("metrics", "rollouts", "silent", "numbers at the top level are finite: they become averages"),
        NemoRule("agent_ref", "gym", "rollout", "an `agent_ref` has a `name`"),
        NemoRule("sampling", "server", "batch", "no top-k; temperature and top-p are those of training"),
        NemoRule("task_index", "rollouts", "batch", "`_ng_task_index` is an integer, on all results or on none"),
        NemoRule("group_complete", "rollouts", "batch", "a group has all its members, each once"),
        NemoRule("group_agent", "rollouts", "batch", "a group's members have one agent"),
        NemoRule("group_sampling", "server", "silent", "a group's members were sampled with one temperature and top-p"),
        NemoRule("group_prompt", "utils", "silent", "a group's members have one first prompt: groups are made by it"),
        NemoRule("group_alone", "utils", "silent", "two members at least are compared: of one the advantage is 0"),
        NemoRule("groups_apart", "utils", "silent", "groups have different first prompts: else they are one"),
        NemoRule(
            "masked_apart", "paddock", "silent", "what failed has not its group's prompt: its reward is no baseline"
        ),
    )
}
"""By name. Those of one result are in the order in which they are checked."""


def breach(rule: str, text: str, **where: Any) -> Violation:
    """A violation of the rule of that name; KeyError where the table does not have it."""
    return Violation(RULES[rule].name, text, **where)
