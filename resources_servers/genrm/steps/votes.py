r"""What an answer of a judge votes for.

Rules   the messages' texts count, reasoning does not; nor does what stands before a last `</think>`. Of the first
        `\boxed{...}` there the content, without the spaces around it, has to be `1`, `+1` or `-1`. Anything else is no
        vote: another content, no box, thinking that is not closed, an answer that was cut or that failed.
Source  OpenClaw-RL's swe-rl, where whatever is no vote is left out of the mean, too.
"""

import re
from typing import Any, Literal, NamedTuple

from paddock.types.responses import is_complete, messages, without_thought

_FIRST = re.compile(r"\\boxed\s*\{")
_VOTE = re.compile(r"\s*([+-]?1)\s*\}")


class Vote(NamedTuple):
    """One vote, or why there is none: exactly one of the two is None."""

    value: Literal[-1, 1] | None
    missing: str | None = None


def read_vote(response: Any) -> Vote:
    """Read the vote of a Responses API response; never raises."""
    if not is_complete(response):
        return Vote(None, "incomplete")
    answer = without_thought("\n".join(messages(response)))
    if answer is None:
        return Vote(None, "unfinished_thinking")
    box = _FIRST.search(answer)
    if box is None:
        return Vote(None, "no_box")
    vote = _VOTE.match(answer, box.end())
    if vote is None:
        return Vote(None, "other_content")
    return Vote(-1 if vote[1] == "-1" else 1)
