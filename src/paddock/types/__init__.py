"""The records that cross a process, and the shapes they are made of. Imports no other package of ours.

Source  the OpenAI Responses API for all that a model gets or gives; the row and verify bodies of NeMo-Gym.
Shapes  `Row` (what to do), `Turn` (one model call in tokens), `Verdict` (judgement), `Failure`, `Rollout` (all of it).
Errors  a value that breaks a record's law raises pydantic's ValidationError; `paddock.errors` gives it an owner.
"""

from paddock.types.patches import patch_from_text, patch_to_text
from paddock.types.records import (
    OUTCOMES,
    REWARDED,
    AgentRef,
    Engine,
    Failure,
    FinishReason,
    Fix,
    Json,
    JsonObject,
    Outcome,
    Owner,
    Record,
    Rollout,
    RolloutSettings,
    Row,
    Session,
    Stamp,
    Timing,
    Turn,
    TurnRecord,
    TurnSummaries,
    TurnSummary,
    TurnSummaryQuery,
    Usage,
    Verdict,
    WeightSpan,
)

__all__ = [
    "OUTCOMES",
    "REWARDED",
    "AgentRef",
    "Engine",
    "Failure",
    "FinishReason",
    "Fix",
    "Json",
    "JsonObject",
    "Outcome",
    "Owner",
    "Record",
    "Rollout",
    "RolloutSettings",
    "Row",
    "Session",
    "Stamp",
    "Timing",
    "Turn",
    "TurnRecord",
    "TurnSummaries",
    "TurnSummary",
    "TurnSummaryQuery",
    "Usage",
    "Verdict",
    "WeightSpan",
    "patch_from_text",
    "patch_to_text",
]
