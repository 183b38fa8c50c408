"""From an answer to the turn that is recorded.

Law     with token ids a turn's parent is the turn whose ids its prompt continues, found id by id; without them, the
        turn whose own history the request tells and goes on with. Ids are never guessed.
Errors  RefusedError and InfraError of the turn store; InfraError `upstream_unreadable` for ids that are no ids.
"""

from pydantic import ValidationError

from paddock.errors import describe
from paddock.models_servers.openai.failures import unreadable
from paddock.server.dialects import Answer
from paddock.tokens import Placed, Told, TurnStore, continued_turn, place, request_hash
from paddock.types import JsonObject, Turn
from paddock.types.responses import new_id


def record(store: TurnStore, secret: str, request: JsonObject, answer: Answer, *, name: str) -> None:
    """Append the answer to `request` to the rollout."""
    turns = store.turns(secret)
    tokens = answer.tokens
    told = Told.of(request)
    if tokens:
        placed = place(turns, tokens.prompt_ids)
    else:
        placed = Placed(continued_turn(turns, store.histories(secret), told), [])
    try:
        turn = Turn(
            id=new_id("turn"),
            parent=placed.parent,
            prompt_ids=placed.prompt_ids if tokens else None,
            sampled_ids=tokens.sampled_ids if tokens else None,
            log_probs=tokens.log_probs if tokens else None,
            weight_version=answer.weight_version,
            finish_reason=answer.finish_reason,
            request_hash=request_hash(request),
            output=answer.output,
            usage=answer.counts.usage() if answer.counts else None,
        )
    except ValidationError as error:
        raise unreadable(name, describe(error)) from error
    store.append(secret, turn, told.digest)
