"""One rollout as blocks: its task, its turns, its patch, its tests, how it ended and why.

Source  the stored rollout; where there is no verdict, the last attempt. Nothing is computed again.
Tests   `tests` of a verdict: status by test, by list; those that did not pass come first.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.collect.prices import usd_text
from paddock.collect.report import duration
from paddock.collect.results import FailedAttempt
from paddock.types import Rollout, patch_from_text
from paddock.types.display import sum_of, usage_text
from paddock.types.responses import output_items
from paddock.viewer.blocks import (
    Block,
    Cell,
    Diff,
    Fold,
    Grid,
    Heading,
    LabelledValue,
    LabelledValues,
    LengthLimits,
    TextBlock,
    Tone,
    cut,
)
from paddock.viewer.entries import Entry, load
from paddock.viewer.turns import TurnItem, TurnView, turn_items, turn_views

PASSED = ("PASSED", "XFAIL")
MAX_TESTS = 2000
MAX_DETAIL = 4000
"""Characters that are shown of a verifier's detail, or of a test's name."""
_STAGES = ("seed", "sandbox", "model", "tools", "verify_wait", "verify")


def entry_blocks(entry: Entry, limits: LengthLimits) -> list[Block]:
    """Everything that the run's folder has of a rollout."""
    head: list[Block] = [Heading(title(entry), tone_of(entry))]
    rollout = load(entry)
    if rollout is None:
        return [*head, *(failure_blocks(entry.failed) if entry.failed else [])]
    return [*head, *rollout_blocks(rollout, limits)]


def title(entry: Entry) -> str:
    """`rollout 3-0 django__django-1: reward 1, resolved (harness codeact, agent swe_agent)`."""
    result = entry.result
    verdict_text = f"reward {result.reward:g}" if result.reward is not None else f"no verdict ({result.outcome})"
    why = result.reason or (entry.failed.kind if entry.failed else "")
    parts = (("harness", entry.harness), ("agent", result.agent))
    who = ", ".join(f"{what} {name}" for what, name in parts if name)
    head = f"rollout {entry.member_id} {entry.name}".rstrip()
    return f"{head}: {verdict_text}{f', {why}' if why else ''}{f' ({who})' if who else ''}"


def tone_of(entry: Entry) -> Tone:
    return "faint" if entry.result.reward is None else "good" if entry.rewarded else "bad"


def rollout_blocks(rollout: Rollout, limits: LengthLimits) -> list[Block]:
    turns = turn_views(rollout)
    return [
        *_task(rollout, limits),
        *_turn_folds(turns, limits),
        *patch_blocks(rollout, limits),
        *test_blocks(rollout),
        *_extra_blocks(rollout, limits),
        Heading("outcome"),
        LabelledValues(list(outcome_facts(rollout, len(turns)))),
    ]


def failure_blocks(failed: FailedAttempt) -> list[Block]:
    stage = [LabelledValue("stage", failed.stage)] if failed.stage else []
    facts = [
        LabelledValue("outcome", failed.outcome, "faint"),
        LabelledValue("owner", failed.owner),
        LabelledValue("kind", failed.kind, "bad"),
        *stage,
        LabelledValue("message", cut(failed.message, MAX_DETAIL)),
        LabelledValue(
            "attempts", f"{failed.attempt + 1}, {'the last was final' if failed.final else 'another may come'}"
        ),
        LabelledValue("agent", failed.agent or "unknown"),
        LabelledValue("tokens", usage_text(failed.usage)),
        LabelledValue("time", _time(failed.timing.model_dump())),
    ]
    return [LabelledValues(facts)]


def turn_blocks(turn: TurnView, limits: LengthLimits) -> list[Block]:
    return [block for item in turn.items for block in _item_blocks(item, limits)]


def _item_blocks(item: TurnItem, limits: LengthLimits) -> Iterator[Block]:
    if item.kind == "call":
        yield TextBlock(f"> {item.title or 'a call without a name'}", "call")
        if item.change.diff:
            yield Diff(cut(item.change.diff, limits.text))
        elif item.text:
            yield TextBlock(cut(item.text.rstrip("\n"), limits.text), margin="  ")
    elif item.kind == "result":
        yield TextBlock(cut(item.text.rstrip("\n"), limits.result) or "(no output)", "faint", margin="  | ")
    elif item.kind == "reasoning":
        yield TextBlock("(thinking)", "faint")
        yield TextBlock(cut(item.text, limits.text), "faint")
    else:
        if item.title or item.kind == "other":
            yield TextBlock(f"[{item.title or 'item'}]", "faint")
        yield TextBlock(cut(item.text, limits.text))


def _turn_folds(turns: list[TurnView], limits: LengthLimits) -> Iterator[Block]:
    spent = 0
    for turn in turns:
        if spent > limits.turns:
            yield TextBlock(f"[... {len(turns) - turn.number + 1} more turns left out ...]", "faint")
            return
        blocks = turn_blocks(turn, limits)
        spent += sum(len(block.text) for block in blocks if isinstance(block, TextBlock))
        names = ", ".join(call.title for call in turn.calls)
        yield Fold(f"turn {turn.number}{f': {names}' if names else ''}", blocks, tone="strong")
    if not turns:
        yield TextBlock("no turns: the model was not called", "faint")


def _task(rollout: Rollout, limits: LengthLimits) -> Iterator[Block]:
    """The task that the policy got, and what its row expects."""
    task, params = rollout.row.task, rollout.row.responses_create_params
    prompt, instructions = params.get("input"), params.get("instructions")
    statement = task.get("problem_statement")
    blocks: list[Block] = []
    if isinstance(statement, str) and statement:
        blocks.append(TextBlock(cut(statement, limits.text)))
    if isinstance(instructions, str) and instructions:
        blocks.append(TextBlock(cut(instructions, limits.text)))
    items = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else output_items(prompt)
    blocks += [block for item in turn_items(items) for block in _item_blocks(item, limits)]
    if blocks:
        yield Fold("task", blocks, open=False)
    expected = task.get("expected_action", task.get("expected_answer"))
    if expected is not None:
        yield Fold("expected", [TextBlock(cut(_text(expected), limits.text))], open=False)


def patch_text(rollout: Rollout) -> str | None:
    """The patch of a rollout as text; None: its response has no patch field."""
    patch = (rollout.response or {}).get("model_patch")
    if not isinstance(patch, str):
        return None
    try:
        return patch_from_text(patch).decode(errors="replace").rstrip("\n")
    except ValueError:
        return patch


def patch_blocks(rollout: Rollout, limits: LengthLimits) -> list[Block]:
    patch = patch_text(rollout)
    if patch is None:
        return []
    if not patch.strip():
        return [Heading("patch"), TextBlock("no patch: nothing was changed", "faint")]
    return [Heading("patch"), Diff(cut(patch, limits.patch))]


def tests_of(rollout: Rollout) -> dict[str, dict[str, str]]:
    """Status by test, by list; empty where the verdict has none."""
    extra = rollout.verdict.extras.get("tests") if rollout.verdict else None
    lists = extra.items() if isinstance(extra, Mapping) else ()
    return {
        str(name): {str(test): str(status) for test, status in tests.items()}
        for name, tests in lists
        if isinstance(tests, Mapping)
    }


def test_blocks(rollout: Rollout) -> list[Block]:
    blocks: list[Block] = []
    for name, tests in tests_of(rollout).items():
        wrong = [(test, status) for test, status in tests.items() if status not in PASSED]
        right = [(test, status) for test, status in tests.items() if status in PASSED]
        summary = f"{name}: {len(right)} of {len(tests)} passed"
        shown = [*wrong, *right][:MAX_TESTS]
        rows = [
            [Cell(status, "good" if status in PASSED else "bad"), Cell(cut(test, MAX_DETAIL))] for test, status in shown
        ]
        left = [TextBlock(f"and {len(tests) - len(shown)} more", "faint")] if len(tests) > len(shown) else []
        grid: list[Block] = [Grid(["status", "test"], rows), *left] if rows else []
        blocks.append(Fold(summary, grid, open=bool(wrong), tone="bad" if wrong else "good"))
    return [Heading("tests"), *blocks] if blocks else []


def _extra_blocks(rollout: Rollout, limits: LengthLimits) -> list[Block]:
    """The other extras of the verdict."""
    extras = rollout.verdict.extras if rollout.verdict else {}
    return [
        Fold(name, [TextBlock(cut(_text(value), limits.text))], open=False)
        for name, value in extras.items()
        if name != "tests" and value not in (None, [], {})
    ]


def outcome_facts(rollout: Rollout, n_turns: int) -> Iterator[LabelledValue]:
    """How it ended, and why."""
    verdict, failure = rollout.verdict, rollout.failure
    yield LabelledValue("outcome", rollout.outcome)
    if verdict is not None:
        yield LabelledValue("reward", f"{verdict.reward:g}", "good" if verdict.reward > 0 else "bad")
        if len(verdict.reward_components) > 1:
            yield LabelledValue("made of", sum_of(verdict))
        yield LabelledValue("reason", verdict.reason)
        if verdict.detail:
            yield LabelledValue("detail", cut(verdict.detail, MAX_DETAIL))
        if verdict.metrics:
            yield LabelledValue("metrics", ", ".join(f"{name} {value:g}" for name, value in verdict.metrics.items()))
    if failure is not None:
        yield LabelledValue("failure", f"{failure.owner}, {failure.kind}: {cut(failure.message, MAX_DETAIL)}", "bad")
    yield from _harness_facts(rollout)
    yield LabelledValue("turns", f"{n_turns}, {len(rollout.turns)} calls of the model recorded")
    yield LabelledValue("tokens", usage_text(rollout.usage))
    if rollout.cost_usd is not None:
        yield LabelledValue("cost", usd_text(rollout.cost_usd))
    yield LabelledValue("time", _time(rollout.timing.model_dump()))


def _harness_facts(rollout: Rollout) -> Iterator[LabelledValue]:
    if rollout.row.agent_ref is not None:
        yield LabelledValue("agent", rollout.row.agent_ref.name)
    harness = (rollout.response or {}).get("harness")
    if not isinstance(harness, dict):
        return
    name, variant = harness.get("name"), harness.get("variant")
    yield LabelledValue("harness", f"{name}" if variant in (None, name) else f"{name}, variant {variant}")
    detail = harness.get("detail")
    yield LabelledValue("ended by", f"{harness.get('ended')}{f': {detail}' if detail else ''}")
    malformed = harness.get("malformed")
    if isinstance(malformed, dict):
        counts = ", ".join(f"{kind} {count}" for kind, count in malformed.items() if count)
        yield LabelledValue("malformed calls", counts or "none", "bad" if counts else "plain")


def _time(seconds: Mapping[str, float]) -> str:
    stages = [f"{stage} {duration(seconds[f'{stage}_s'])}" for stage in _STAGES if seconds[f"{stage}_s"]]
    total = duration(seconds["total_s"])
    return f"{total} ({', '.join(stages)})" if stages else total


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False, default=str)
