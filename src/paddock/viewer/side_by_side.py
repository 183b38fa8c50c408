"""Two rollouts side by side: turn by turn, then patches, tests and verdicts.

Same    two turns are the same when their messages, calls and results are; ids and times don't count.
"""

from itertools import zip_longest

from paddock.types import Rollout
from paddock.viewer.blocks import Block, Cell, Diff, Fold, Grid, Heading, LengthLimits, TextBlock, TwoColumns, cut
from paddock.viewer.entries import Entry, load
from paddock.viewer.rollout import failure_blocks, outcome_facts, patch_text, tests_of, title, turn_blocks
from paddock.viewer.turns import TurnView, turn_views


def side_by_side(left: Entry, right: Entry, limits: LengthLimits) -> list[Block]:
    head: list[Block] = [
        Heading(f"{left.member_id} beside {right.member_id}"),
        TwoColumns([TextBlock(title(left), "strong")], [TextBlock(title(right), "strong")]),
    ]
    first, second = load(left), load(right)
    if first is None or second is None:
        return [*head, TwoColumns(_only(left, first), _only(right, second))]
    return [
        *head,
        *_turns(first, second, limits),
        *_patches(first, second, limits),
        *_tests(first, second),
        *_verdicts(first, second),
    ]


def _only(entry: Entry, rollout: Rollout | None) -> list[Block]:
    """Blocks of a rollout where only one of the two has a verdict."""
    if rollout is None:
        return failure_blocks(entry.failed) if entry.failed else []
    return [TextBlock("it has a verdict, the other has not", "faint")]


def _turns(first: Rollout, second: Rollout, limits: LengthLimits) -> list[Block]:
    pairs = list(zip_longest(turn_views(first), turn_views(second)))
    blocks: list[Block] = []
    for number, (left, right) in enumerate(pairs, 1):
        label = difference(left, right)
        if label == "same":
            blocks.append(
                Fold(f"turn {number}: same", turn_blocks(left, limits) if left else [], open=False, tone="faint")
            )
        else:
            sides = TwoColumns(_side(left, limits), _side(right, limits))
            blocks.append(Fold(f"turn {number}: {label}", [sides], tone="strong"))
    return blocks


def difference(left: TurnView | None, right: TurnView | None) -> str:
    """`same`, or in which way two turns differ."""
    if left is None or right is None:
        return "only on the right" if left is None else "only on the left"
    if left.items == right.items:
        return "same"
    if left.without_results == right.without_results:
        return "the same calls, other results"
    return "different"


def _side(turn: TurnView | None, limits: LengthLimits) -> list[Block]:
    return turn_blocks(turn, limits) if turn else [TextBlock("(ended before)", "faint")]


def _patches(first: Rollout, second: Rollout, limits: LengthLimits) -> list[Block]:
    left, right = patch_text(first), patch_text(second)
    if left is None and right is None:
        return []
    if left == right:
        return [Heading("patches: the same"), Diff(cut(left or "", limits.patch))]
    return [Heading("patches: different"), TwoColumns(_patch(left, limits), _patch(right, limits))]


def _patch(text: str | None, limits: LengthLimits) -> list[Block]:
    return [Diff(cut(text, limits.patch))] if text and text.strip() else [TextBlock("no patch", "faint")]


def _tests(first: Rollout, second: Rollout) -> list[Block]:
    """The tests whose status differs."""
    left, right = (
        {test: status for tests in tests_of(side).values() for test, status in tests.items()}
        for side in (first, second)
    )
    if not left and not right:
        return []
    differ = [test for test in {**left, **right} if left.get(test) != right.get(test)]
    if not differ:
        return [Heading("tests: the same")]
    rows = [[Cell(left.get(test, "-")), Cell(right.get(test, "-")), Cell(test)] for test in differ]
    return [Heading("tests: different"), Grid(["left", "right", "test"], rows)]


def _verdicts(first: Rollout, second: Rollout) -> list[Block]:
    left, right = (
        {fact.label: fact for fact in outcome_facts(side, len(turn_views(side)))} for side in (first, second)
    )
    rows = [
        [
            Cell(label),
            *(Cell(side[label].text, side[label].tone) if label in side else Cell("-") for side in (left, right)),
        ]
        for label in {**left, **right}
    ]
    return [Heading("outcome"), Grid(["", "left", "right"], rows)]
