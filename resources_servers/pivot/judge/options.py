"""What of the judge of undecided actions may be set."""

from pydantic import Field

from paddock.server.model_judge import ModelJudgeOptions


class JudgeOptions(ModelJudgeOptions):
    """Who is asked whether two actions do the same, with how much text and for how long."""

    max_context_chars: int = Field(default=4000, ge=0)
    """Characters of the end of the row's history that the judge is shown."""
    max_action_chars: int = Field(default=8000, ge=1)
    """Characters of one action; where either has more the judge is not asked."""
