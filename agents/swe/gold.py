"""The known fix of a row, for a harness that needs it, and for nothing else.

Source  the row's `patch`, where it has one. Rows that say it in another way are read by their environment alone: its
        known-good turn is then asked of the model server, where that is one that plays such turns.
Errors  RowError where neither gives a fix.
"""

from paddock.errors import RequestError, RowError
from paddock.http import RESPONSES, Peer
from paddock.server.rollout import RolloutRun
from paddock.types import patch_from_text
from paddock.types.responses import messages

REPLAY_MODEL = "replay"
"""What a model server that plays known-good turns calls its model."""


async def gold_patch(run: RolloutRun, model: Peer) -> bytes:
    """Return the fix, as a git patch; RowError where there is none."""
    patch = run.row.task.get("patch")
    if isinstance(patch, str) and patch.strip():
        return _bytes(patch)
    try:
        reply = await model.call(RESPONSES, {"input": "The known fix?"}, run.call, secret=run.secret)
    except RequestError as error:
        raise _no_fix() from error
    if not isinstance(reply, dict) or reply.get("model") != REPLAY_MODEL or not (texts := messages(reply)):
        raise _no_fix()
    return _bytes(texts[-1])


def _bytes(text: str) -> bytes:
    try:
        return patch_from_text(text)
    except ValueError as error:
        raise RowError(f"patch: `base64:` that does not decode: {error}", kind="gold_invalid") from error


def _no_fix() -> RowError:
    return RowError("the row has no `patch`, and no known-good turn is played (--oracle)", kind="no_gold")
