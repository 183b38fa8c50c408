"""Scripts of rollouts in the making: what is played next in each.

Law     a turn is played once. The items get fresh ids, so that one script may serve any number of rollouts.
Errors  RequestError `no_script` without a script, `script_ended` past its end: asking again would not help.
"""

from collections import OrderedDict

from paddock.errors import RequestError
from paddock.http import ReplayScript
from paddock.server.dialects import with_ids
from paddock.types import JsonObject


class Scripts:
    """Scripts by rollout secret, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._scripts: OrderedDict[str, tuple[ReplayScript, int]] = OrderedDict()

    def put(self, secret: str, script: ReplayScript) -> None:
        """Replaces an earlier script; the next call plays its first turn."""
        self._scripts[secret] = (script, 0)
        self._scripts.move_to_end(secret)
        while len(self._scripts) > self._limit:
            self._scripts.popitem(last=False)

    def play(self, secret: str) -> list[JsonObject]:
        """The next turn's output items."""
        if secret not in self._scripts:
            raise RequestError("this rollout has no script: PUT /r/<secret>/script comes first", kind="no_script")
        script, next_turn = self._scripts[secret]
        if next_turn >= len(script.turns):
            raise RequestError(
                f"this rollout's script has {len(script.turns)} turns, and all are played", kind="script_ended"
            )
        self._scripts[secret] = (script, next_turn + 1)
        self._scripts.move_to_end(secret)
        return [with_ids(item, fresh=True) for item in script.turns[next_turn]]

    def forget(self, secret: str) -> None:
        self._scripts.pop(secret, None)
