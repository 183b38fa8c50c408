"""Settings of the blocklist: the `blocklist` block of a config.

Errors  an unknown rule name raises with the nearest one; so does an extra rule that takes the name of another.
"""

from difflib import get_close_matches
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from paddock.sandbox.blocklist.arguments import ProgramProfile
from paddock.sandbox.blocklist.rules import Rule, rule_book


class BlocklistSettings(BaseModel):
    """Which commands are refused with advice."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    """Whether commands are looked at; False: none is refused."""
    rules: dict[str, bool] = {}
    """Rules by name, on or off; one that is not named is on."""
    extra: list[Rule] = []
    """Rules besides the shipped ones."""
    profiles: list[ProgramProfile] = []
    """How the programs of extra rules read their command lines; before the shipped ones."""
    timeout_s: float = Field(default=0.05, gt=0)
    """Seconds for one match. A rule that takes longer does not refuse, and is left out for the rest of the line."""

    @model_validator(mode="after")
    def _names(self) -> Self:
        names = [rule.name for rule in (*rule_book().rules, *self.extra)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"two rules are named {twice[0]!r}; switch the shipped one off and give yours another name"
            )
        for name in self.rules:
            if name not in names:
                near = get_close_matches(name, names, n=1, cutoff=0.0)
                raise ValueError(f"no rule is named {name!r}; the nearest is {near[0]!r}")
        return self

    def active(self) -> list[Rule]:
        """The rules that are on."""
        rules = [*rule_book().rules, *self.extra] if self.enabled else []
        return [rule for rule in rules if self.rules.get(rule.name, True)]
