"""A scripted model server whose turns have exact ids: ten of the prompt, two that were sampled."""

from paddock.conformance.scripted import ScriptedModel
from paddock.types import TurnRecord


class ExactModel(ScriptedModel):
    async def turns(self, secret: str) -> TurnRecord:
        record = await super().turns(secret)
        ids = {"prompt_ids": list(range(1, 11)), "sampled_ids": [11, 12], "log_probs": [-0.5, -0.25]}
        turns = [turn.model_copy(update={**ids, "weight_version": "0"}) for turn in record.turns]
        return TurnRecord(engine="exact", turns=turns)
