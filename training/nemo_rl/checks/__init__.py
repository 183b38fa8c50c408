"""Checks of results by the rules of NeMo-RL: of each result by itself, and of the results of a group together.

`check_result` gives the rules that one result breaks, `check_group` those that the results of one group break together,
`check_results` both, for any number. `RULES` is their table: names, sources, and what happens where one is broken.
"""

from paddock.training.nemo_rl.checks.groups import FailedMember, GroupChecker, ResultFinding, check_group, check_results
from paddock.training.nemo_rl.checks.results import check_result
from paddock.training.nemo_rl.checks.rules import RULES, Effect, NemoRule
from paddock.training.nemo_rl.checks.settings import CheckSettings

__all__ = [
    "RULES",
    "CheckSettings",
    "Effect",
    "FailedMember",
    "GroupChecker",
    "NemoRule",
    "ResultFinding",
    "check_group",
    "check_result",
    "check_results",
]
