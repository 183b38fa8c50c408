"""A checker of what NeMo-RL does with results: each by itself, and against each other.

`check_result` says what is wrong with one result, `check_group` what is wrong between the results of one group,
`check_results` both, of any number. `RULES` is their table: names, sources, and what happens where one is broken.
"""

from paddock.training.nemo_rl.checking.groups import Finding, GroupChecker, check_group, check_results
from paddock.training.nemo_rl.checking.results import check_result
from paddock.training.nemo_rl.checking.rules import RULES, Effect, Rule
from paddock.training.nemo_rl.checking.settings import CheckSettings

__all__ = [
    "RULES",
    "CheckSettings",
    "Effect",
    "Finding",
    "GroupChecker",
    "Rule",
    "check_group",
    "check_result",
    "check_results",
]
