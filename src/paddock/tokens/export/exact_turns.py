"""Which turns of a record have ids that are proven from the first on, and why the others can't be trained on.

Law     a turn joins when its parent stands before it in the record and has joined, and it has ids itself. Then its
        whole prompt is the ids of its ancestors and its own, id by id what the engine was given: of an `exact` engine
        by construction, of a `spliced` one because it was placed by its recorded prefix. Where ids are missing the
        path ends: what continues it has no known prompt. So it does with a turn whose splice is broken: its engine
        does not do what its ids are believed for. A turn that starts a branch of its own joins anew.
        Where the engine counted its tokens, their number has to be that of the ids, in prompt and answer; a turn of
        which that is not so is not trained on, but turns after it join by their own ids and counts.
Errors  none: any record can be joined.
"""

from typing import NamedTuple

from paddock.tokens.export.records import Reason
from paddock.types import Turn, TurnRecord


class ExactTurns(NamedTuple):
    """A record's turns, as far as their ids are known."""

    placed: dict[str, Turn]
    """Turns whose parents stand before them, by id, in the record's order; with or without ids."""
    ends: dict[str, int]
    """How many tokens prompt and answer have together, by id, of turns whose ids are known from the first on."""
    reasons: list[Reason | None]
    """Why a turn can't be trained on in any mode, for each of the record; None: it can."""

    def path(self, turn_id: str) -> list[Turn]:
        """The turn and its ancestors, root first."""
        path = [self.placed[turn_id]]
        while path[-1].parent is not None:
            path.append(self.placed[path[-1].parent])
        path.reverse()
        return path


def exact_turns(record: TurnRecord) -> ExactTurns:
    exact = ExactTurns({}, {}, [])
    for turn in record.turns:
        reason = _add(exact, turn)
        exact.reasons.append("engine_text" if record.engine == "text" else reason)
    return exact


def _add(exact: ExactTurns, turn: Turn) -> Reason | None:
    if turn.id in exact.placed or (turn.parent is not None and turn.parent not in exact.placed):
        return "misplaced"
    exact.placed[turn.id] = turn
    if turn.prompt_ids is None or turn.sampled_ids is None:
        return "no_ids"
    if turn.splice_broken:
        return "splice_broken"
    start = 0 if turn.parent is None else exact.ends.get(turn.parent)
    if start is None:
        return "no_ids_before"
    prompt, answer = start + len(turn.prompt_ids), len(turn.sampled_ids)
    exact.ends[turn.id] = prompt + answer
    if _differ(turn, prompt, answer):
        return "lengths_differ"
    if not answer:
        return "nothing_sampled"
    return "no_log_probs" if turn.log_probs is None else None


def _differ(turn: Turn, prompt: int, answer: int) -> bool:
    """A count of 0 was not given."""
    if turn.usage is None:
        return False
    return turn.usage.input_tokens not in (0, prompt) or turn.usage.output_tokens not in (0, answer)
