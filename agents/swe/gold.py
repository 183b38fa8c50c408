"""The known fix of a row, for a harness that needs it, and for nothing else.

Source  the row's `patch`, or its `solution` (files and the command that makes the fix), where it has one. Rows that say
        it in another way are read by their environment alone: its known-good turn is then asked of the model server,
        where that is one that plays such turns.
Errors  RowError where none gives a fix.
"""

import base64
import binascii

from pydantic import ValidationError

from paddock.errors import RequestError, RowError, describe
from paddock.harness import Gold, SolutionScript
from paddock.http import RESPONSES, Peer
from paddock.server.rollout import RolloutRun
from paddock.types import patch_from_text
from paddock.types.responses import messages

REPLAY_MODEL = "replay"
"""What a model server that plays known-good turns calls its model."""


async def known_fix(run: RolloutRun, model: Peer) -> Gold:
    """Return the fix: a git patch, or a script with its files; RowError where there is none."""
    patch, solution = run.row.task.get("patch"), run.row.task.get("solution")
    if isinstance(patch, str) and patch.strip():
        return _bytes(patch)
    if isinstance(solution, dict):
        return _script(solution)
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


def _script(solution: dict[str, object]) -> SolutionScript:
    try:
        archive = base64.b64decode(str(solution.get("archive", "")), validate=True)
        return SolutionScript.model_validate({**solution, "archive": archive})
    except (binascii.Error, ValidationError) as error:
        why = describe(error) if isinstance(error, ValidationError) else f"archive: no base64: {error}"
        raise RowError(f"solution: {why}", kind="gold_invalid") from error


def _no_fix() -> RowError:
    return RowError("the row has no `patch` or `solution`, and no known-good turn is played (--oracle)", kind="no_gold")
