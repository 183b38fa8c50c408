"""Rules that one result breaks by itself.

Law     every rule is checked, but where one must hold for others to have a meaning: of a result without items nothing
        else is checked. So a result can break several rules, each of its turns too.
Errors  none for any JSON.
"""

import math
from collections.abc import Iterator
from typing import Any

from paddock.training.nemo_rl.checks.rules import breach
from paddock.training.nemo_rl.checks.settings import CheckSettings
from paddock.training.nemo_rl.checks.turns import check_turns, is_number, turns_of
from paddock.training.nemo_rl.records import Result, Violation
from paddock.types.responses import is_cut

RELATIVE, ABSOLUTE = 1e-5, 1e-6
"""Tolerances of the sum of components against the reward."""
DEFAULTS = CheckSettings()


def check_result(result: Result, settings: CheckSettings = DEFAULTS) -> list[Violation]:
    """All rules that the result breaks; empty: NeMo-RL trains on it as it is meant."""
    wrong = shape_violation(result)
    if wrong is not None:
        return [wrong]
    return [
        *check_turns(result, settings),
        *_input(result),
        *_overlong(result, settings),
        *check_reward(result),
        *check_mask(result),
        *_metrics(result),
        *_agent(result),
        *_sampling(result, settings),
    ]


def shape_violation(result: Any) -> Violation | None:
    """Why the result can't be read at all; None: it can."""
    if not isinstance(result, dict):
        return breach("result", f"it is {type(result).__name__}, no object")
    for name in ("response", "responses_create_params"):
        if not isinstance(result.get(name), dict):
            return breach("result", f"`{name}` is no object")
    items = result["response"].get("output")
    if not isinstance(items, list):
        return breach("result", "`response.output` is no list")
    wrong_item = next((nth for nth, item in enumerate(items) if not isinstance(item, dict)), None)
    return None if wrong_item is None else breach("result", "an item is no object", item=wrong_item)


def is_masked(result: Result) -> bool:
    """Whether the result is masked, as NeMo-RL reads it."""
    config = result.get("instance_config")
    return isinstance(config, dict) and bool(config.get("mask_sample"))


def check_reward(result: Result) -> Iterator[Violation]:
    reward = result.get("reward")
    if not isinstance(reward, int | float):
        yield breach("reward", f"it is {reward!r}; a rollout without a reward is masked and has 0")
        return
    if not _is_finite(reward):
        yield breach("reward_finite", f"it is {reward!r}")
    components = result.get("reward_components")
    if not components:
        return
    if not isinstance(components, dict) or not all(map(is_number, components.values())):
        yield breach("reward_components", f"{components!r}: no numbers by name")
        return
    total = sum(components.values())
    if not math.isclose(reward, total, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
        yield breach("reward_components", f"they sum to {total!r}, the reward is {reward!r}")


def _input(result: Result) -> Iterator[Violation]:
    if "input" not in result["responses_create_params"]:
        yield breach("input", "`responses_create_params` has no `input`; an empty list would do")


def _overlong(result: Result, settings: CheckSettings) -> Iterator[Violation]:
    """NeMo-RL takes a result for cut if it is exactly as long as the longest sequence."""
    if not settings.overlong_filtering or not is_cut(result["response"]) or is_masked(result):
        return
    tokens = sum(len(turn.prompt) + len(turn.sampled) for turn in list(turns_of(result))[-1:])
    if tokens != settings.max_total_sequence_length:
        yield breach("overlong", f"a budget cut it after {tokens} tokens, and it would be trained on: mask it")


def check_mask(result: Result) -> Iterator[Violation]:
    config = result.get("instance_config")
    if config and not isinstance(config, dict):
        yield breach("instance_config", f"it is {type(config).__name__}, no object")
        return
    flag = (config or {}).get("mask_sample", False)
    if not isinstance(flag, bool):
        yield breach("mask_boolean", f"`mask_sample` is {flag!r}, which counts as {bool(flag)}")
    if result.get("mask_sample") and not flag:
        yield breach("mask_place", "`mask_sample` is at the top level: put it into `instance_config`")


def _metrics(result: Result) -> Iterator[Violation]:
    for name, value in result.items():
        if name != "reward" and is_number(value) and not _is_finite(value):
            yield breach("metrics", f"`{name}` is {value!r:.40}")


def _agent(result: Result) -> Iterator[Violation]:
    ref = result.get("agent_ref")
    if ref is not None and not (isinstance(ref, dict) and isinstance(ref.get("name"), str)):
        yield breach("agent_ref", f"{ref!r:.80} has no name")


def _sampling(result: Result, settings: CheckSettings) -> Iterator[Violation]:
    params = result["responses_create_params"]
    if params.get("top_k") not in (None, -1):
        yield breach("sampling", f"top_k is {params['top_k']!r}: NeMo-RL's server refuses each call that has one")
    for name, expected in (("temperature", settings.temperature), ("top_p", settings.top_p)):
        if expected is not None and name in params and params[name] != expected:
            yield breach("sampling", f"{name} is {params[name]!r}, and training samples with {expected}")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
