"""Two rollouts side by side: turn by turn, then patches, tests and verdicts.

Same    a turn is the same when what the model said and called, and what came back, are; ids and times don't count.
"""

from itertools import zip_longest

from paddock.types import Rollout
from paddock.viewer.blocks import Beside, Block, Cell, Cuts, Diff, Fold, Grid, Heading, Text, cut
from paddock.viewer.rollout import failure_blocks, outcome_facts, patch_text, tests_of, title, turn_blocks
from paddock.viewer.stored import Entry, load
from paddock.viewer.turns import SeenTurn, seen_turns


def two_blocks(left: Entry, right: Entry, cuts: Cuts) -> list[Block]:
    head: list[Block] = [
        Heading(f"{left.place} beside {right.place}"),
        Beside([Text(title(left), "strong")], [Text(title(right), "strong")]),
    ]
    one, other = load(left), load(right)
    if one is None or other is None:
        return [*head, Beside(_only(left, one), _only(right, other))]
    return [*head, *_turns(one, other, cuts), *_patches(one, other, cuts), *_tests(one, other), *_verdicts(one, other)]


def _only(entry: Entry, rollout: Rollout | None) -> list[Block]:
    """Of a rollout that has nothing to be compared with."""
    if rollout is None:
        return failure_blocks(entry.failed) if entry.failed else []
    return [Text("it has a verdict, the other has not", "faint")]


def _turns(one: Rollout, other: Rollout, cuts: Cuts) -> list[Block]:
    pairs = list(zip_longest(seen_turns(one), seen_turns(other)))
    blocks: list[Block] = []
    for number, (left, right) in enumerate(pairs, 1):
        how = compared(left, right)
        if how == "same":
            blocks.append(
                Fold(f"turn {number}: same", turn_blocks(left, cuts) if left else [], open=False, tone="faint")
            )
        else:
            sides = Beside(_side(left, cuts), _side(right, cuts))
            blocks.append(Fold(f"turn {number}: {how}", [sides], tone="strong"))
    return blocks


def compared(left: SeenTurn | None, right: SeenTurn | None) -> str:
    """`same`, or in which way two turns are not."""
    if left is None or right is None:
        return "only on the right" if left is None else "only on the left"
    if left.said == right.said:
        return "same"
    if left.without_results == right.without_results:
        return "the same said, other results"
    return "different"


def _side(turn: SeenTurn | None, cuts: Cuts) -> list[Block]:
    return turn_blocks(turn, cuts) if turn else [Text("(ended before)", "faint")]


def _patches(one: Rollout, other: Rollout, cuts: Cuts) -> list[Block]:
    left, right = patch_text(one), patch_text(other)
    if left is None and right is None:
        return []
    if left == right:
        return [Heading("patches: the same"), Diff(cut(left or "", cuts.patch))]
    return [Heading("patches: different"), Beside(_patch(left, cuts), _patch(right, cuts))]


def _patch(text: str | None, cuts: Cuts) -> list[Block]:
    return [Diff(cut(text, cuts.patch))] if text and text.strip() else [Text("no patch", "faint")]


def _tests(one: Rollout, other: Rollout) -> list[Block]:
    """Tests with another status."""
    left, right = (
        {test: status for tests in tests_of(side).values() for test, status in tests.items()} for side in (one, other)
    )
    if not left and not right:
        return []
    differ = [test for test in {**left, **right} if left.get(test) != right.get(test)]
    if not differ:
        return [Heading("tests: the same")]
    rows = [[Cell(left.get(test, "-")), Cell(right.get(test, "-")), Cell(test)] for test in differ]
    return [Heading("tests: different"), Grid(["left", "right", "test"], rows)]


def _verdicts(one: Rollout, other: Rollout) -> list[Block]:
    left, right = ({fact.label: fact for fact in outcome_facts(side, len(seen_turns(side)))} for side in (one, other))
    rows = [
        [
            Cell(label),
            *(Cell(side[label].text, side[label].tone) if label in side else Cell("-") for side in (left, right)),
        ]
        for label in {**left, **right}
    ]
    return [Heading("outcome"), Grid(["", "left", "right"], rows)]
