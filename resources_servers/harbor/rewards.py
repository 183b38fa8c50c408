"""Rewards as tests leave them: `reward.json` before `reward.txt`, by Harbor's own rules.

Source  harbor 0.25.0, `verifier/verifier.py`: a text is a float; JSON is an object of numbers; an empty file, what is
        no number or not finite is the verifier's failure, never a 0. Nothing is clipped.
Single  of several numbers the one that the config names is the reward, else that called `reward`, else the only one.
Errors  VerifierError: `no_reward`, `reward_invalid`, `reward_key`.
"""

import json
import math
from typing import NamedTuple

from paddock.errors import VerifierError

JSON, TEXT = "reward.json", "reward.txt"
MAX_BYTES = 1 << 20
"""A longer file is no reward."""
SHOWN = 200


class RewardFile(NamedTuple):
    """The file that a reward is read from."""

    name: str
    text: str


def reward_file(name: str, data: bytes) -> RewardFile:
    """Take the bytes of a reward file; VerifierError where they are no text, or too many."""
    if len(data) > MAX_BYTES:
        raise VerifierError(f"{name} has more than {MAX_BYTES} bytes", kind="reward_invalid")
    try:
        return RewardFile(name, data.decode())
    except UnicodeDecodeError as error:
        raise VerifierError(f"{name} is no text: {error}", kind="reward_invalid") from error


def read_rewards(file: RewardFile | None) -> dict[str, float]:
    """Read the numbers of a reward file by their names."""
    if file is None:
        raise VerifierError("the tests left neither reward.json nor reward.txt", kind="no_reward")
    if not file.text:
        raise VerifierError(f"{file.name} is empty", kind="no_reward")
    if file.name == TEXT:
        try:
            value = float(file.text)
        except ValueError as error:
            raise _invalid(file, "it is no number") from error
        return {"reward": _finite(file, value)}
    try:
        rewards = json.loads(file.text)
    except (ValueError, RecursionError) as error:
        raise _invalid(file, str(error)) from error
    if not isinstance(rewards, dict):
        raise _invalid(file, "it is no object of numbers")
    return {name: _finite(file, value) for name, value in rewards.items()}


def single_reward(rewards: dict[str, float], key: str | None) -> float:
    """Choose the reward among several numbers."""
    if key is not None and key in rewards:
        return rewards[key]
    if "reward" in rewards:
        return rewards["reward"]
    if len(rewards) == 1:
        return next(iter(rewards.values()))
    raise VerifierError(
        f"rewards {', '.join(rewards) or 'none'}: none is called `reward`; say which one is, by `reward_key`",
        kind="reward_key",
        retryable=False,
    )


def _finite(file: RewardFile, value: object) -> float:
    if not isinstance(value, (int, float)):
        raise _invalid(file, f"{value!r} is no number")
    try:
        number = float(value)
    except OverflowError as error:
        raise _invalid(file, f"{str(value)[:SHOWN]} is too large") from error
    if not math.isfinite(number):
        raise _invalid(file, f"{value!r} is not finite")
    return number


def _invalid(file: RewardFile, why: str) -> VerifierError:
    return VerifierError(f"{file.name}: {why[:SHOWN]}: {file.text[:SHOWN]!r}", kind="reward_invalid")
