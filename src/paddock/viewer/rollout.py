"""One rollout as blocks: what it was asked, its turns, its patch, its tests, how it ended and why.

Source  the stored rollout; of one without a verdict, its last attempt. Nothing is computed again.
Tests   `tests` of a verdict: status by test, by list; those that did not pass come first.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.collect.report import duration
from paddock.collect.results import FailedAttempt
from paddock.types import Rollout, patch_from_text
from paddock.types.display import sum_of
from paddock.types.responses import output_items
from paddock.viewer.blocks import Block, Cell, Cuts, Diff, Fact, Facts, Fold, Grid, Heading, Text, Tone, cut
from paddock.viewer.stored import Entry, load
from paddock.viewer.turns import Said, SeenTurn, said_by, seen_turns

PASSED = ("PASSED", "XFAIL")
MAX_TESTS = 2000
MAX_DETAIL = 4000
"""Characters of a sentence of the verifier, or of the name of a test."""
_STAGES = ("seed", "sandbox", "model", "tools", "verify_wait", "verify")


def entry_blocks(entry: Entry, cuts: Cuts) -> list[Block]:
    """Everything that is known of a rollout."""
    head: list[Block] = [Heading(title(entry), tone_of(entry))]
    rollout = load(entry)
    if rollout is None:
        return [*head, *(failure_blocks(entry.failed) if entry.failed else [])]
    return [*head, *rollout_blocks(rollout, cuts)]


def title(entry: Entry) -> str:
    """`rollout 3-0 django__django-1: reward 1, resolved (harness codeact, agent swe_agent)`."""
    result = entry.result
    came_to = f"reward {result.reward:g}" if result.reward is not None else f"no verdict ({result.outcome})"
    why = result.reason or (entry.failed.kind if entry.failed else "")
    parts = (("harness", entry.harness), ("agent", result.agent))
    who = ", ".join(f"{what} {name}" for what, name in parts if name)
    head = f"rollout {entry.place} {entry.name}".rstrip()
    return f"{head}: {came_to}{f', {why}' if why else ''}{f' ({who})' if who else ''}"


def tone_of(entry: Entry) -> Tone:
    return "faint" if entry.result.reward is None else "good" if entry.paid else "bad"


def rollout_blocks(rollout: Rollout, cuts: Cuts) -> list[Block]:
    turns = seen_turns(rollout)
    return [
        *_task(rollout, cuts),
        *_turn_folds(turns, cuts),
        *patch_blocks(rollout, cuts),
        *test_blocks(rollout),
        *_extra_blocks(rollout, cuts),
        Heading("outcome"),
        Facts(list(outcome_facts(rollout, len(turns)))),
    ]


def failure_blocks(failed: FailedAttempt) -> list[Block]:
    stage = [Fact("stage", failed.stage)] if failed.stage else []
    facts = [
        Fact("outcome", failed.outcome, "faint"),
        Fact("owner", failed.owner),
        Fact("kind", failed.kind, "bad"),
        *stage,
        Fact("message", cut(failed.message, MAX_DETAIL)),
        Fact("attempts", f"{failed.attempt + 1}, {'the last was final' if failed.final else 'another may come'}"),
        Fact("agent", failed.agent or "unknown"),
        Fact("tokens", f"{failed.usage.input_tokens} in, {failed.usage.output_tokens} out"),
        Fact("time", _time(failed.timing.model_dump())),
    ]
    return [Facts(facts)]


def turn_blocks(turn: SeenTurn, cuts: Cuts) -> list[Block]:
    return [block for said in turn.said for block in _said(said, cuts)]


def _said(said: Said, cuts: Cuts) -> Iterator[Block]:
    if said.kind == "call":
        yield Text(f"> {said.title or 'a call without a name'}", "call")
        if said.text:
            yield Text(cut(said.text.rstrip("\n"), cuts.text), margin="  ")
    elif said.kind == "result":
        yield Text(cut(said.text.rstrip("\n"), cuts.result) or "(no output)", "faint", margin="  | ")
    elif said.kind == "reasoning":
        yield Text("(thinking)", "faint")
        yield Text(cut(said.text, cuts.text), "faint")
    else:
        if said.title or said.kind == "other":
            yield Text(f"[{said.title or 'item'}]", "faint")
        yield Text(cut(said.text, cuts.text))


def _turn_folds(turns: list[SeenTurn], cuts: Cuts) -> Iterator[Block]:
    spent = 0
    for turn in turns:
        if spent > cuts.turns:
            yield Text(f"[... {len(turns) - turn.number + 1} more turns left out ...]", "faint")
            return
        blocks = turn_blocks(turn, cuts)
        spent += sum(len(block.text) for block in blocks if isinstance(block, Text))
        names = ", ".join(call.title for call in turn.calls)
        yield Fold(f"turn {turn.number}{f': {names}' if names else ''}", blocks, tone="strong")
    if not turns:
        yield Text("no turns: the model was not asked", "faint")


def _task(rollout: Rollout, cuts: Cuts) -> Iterator[Block]:
    """What the policy was asked, and what its row expects."""
    task, params = rollout.row.task, rollout.row.responses_create_params
    given, instructions = params.get("input"), params.get("instructions")
    said = task.get("problem_statement")
    blocks: list[Block] = []
    if isinstance(said, str) and said:
        blocks.append(Text(cut(said, cuts.text)))
    if isinstance(instructions, str) and instructions:
        blocks.append(Text(cut(instructions, cuts.text)))
    items = [{"role": "user", "content": given}] if isinstance(given, str) else output_items(given)
    blocks += [block for one in said_by(items) for block in _said(one, cuts)]
    if blocks:
        yield Fold("task", blocks, open=False)
    expected = task.get("expected_action", task.get("expected_answer"))
    if expected is not None:
        yield Fold("expected", [Text(cut(_text(expected), cuts.text))], open=False)


def patch_text(rollout: Rollout) -> str | None:
    """None: the response has no place for one."""
    given = (rollout.response or {}).get("model_patch")
    if not isinstance(given, str):
        return None
    try:
        return patch_from_text(given).decode(errors="replace").rstrip("\n")
    except ValueError:
        return given


def patch_blocks(rollout: Rollout, cuts: Cuts) -> list[Block]:
    patch = patch_text(rollout)
    if patch is None:
        return []
    if not patch.strip():
        return [Heading("patch"), Text("no patch: nothing was changed", "faint")]
    return [Heading("patch"), Diff(cut(patch, cuts.patch))]


def tests_of(rollout: Rollout) -> dict[str, dict[str, str]]:
    """Status by test, by list; empty where the verdict has none."""
    found = rollout.verdict.extras.get("tests") if rollout.verdict else None
    lists = found.items() if isinstance(found, Mapping) else ()
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
        left = [Text(f"and {len(tests) - len(shown)} more", "faint")] if len(tests) > len(shown) else []
        grid: list[Block] = [Grid(["status", "test"], rows), *left] if rows else []
        blocks.append(Fold(summary, grid, open=bool(wrong), tone="bad" if wrong else "good"))
    return [Heading("tests"), *blocks] if blocks else []


def _extra_blocks(rollout: Rollout, cuts: Cuts) -> list[Block]:
    """What else the verifier said."""
    extras = rollout.verdict.extras if rollout.verdict else {}
    return [
        Fold(name, [Text(cut(_text(value), cuts.text))], open=False)
        for name, value in extras.items()
        if name != "tests" and value not in (None, [], {})
    ]


def outcome_facts(rollout: Rollout, n_turns: int) -> Iterator[Fact]:
    """How it ended, and why."""
    verdict, failure = rollout.verdict, rollout.failure
    yield Fact("outcome", rollout.outcome)
    if verdict is not None:
        yield Fact("reward", f"{verdict.reward:g}", "good" if verdict.reward > 0 else "bad")
        if len(verdict.reward_components) > 1:
            yield Fact("made of", sum_of(verdict))
        yield Fact("reason", verdict.reason)
        if verdict.detail:
            yield Fact("detail", cut(verdict.detail, MAX_DETAIL))
        if verdict.metrics:
            yield Fact("metrics", ", ".join(f"{name} {value:g}" for name, value in verdict.metrics.items()))
    if failure is not None:
        yield Fact("failure", f"{failure.owner}, {failure.kind}: {cut(failure.message, MAX_DETAIL)}", "bad")
    yield from _harness_facts(rollout)
    yield Fact("turns", f"{n_turns}, {len(rollout.turns)} calls of the model recorded")
    yield Fact("tokens", f"{rollout.usage.input_tokens} in, {rollout.usage.output_tokens} out")
    yield Fact("time", _time(rollout.timing.model_dump()))


def _harness_facts(rollout: Rollout) -> Iterator[Fact]:
    if rollout.row.agent_ref is not None:
        yield Fact("agent", rollout.row.agent_ref.name)
    told = (rollout.response or {}).get("harness")
    if not isinstance(told, dict):
        return
    name, variant = told.get("name"), told.get("variant")
    yield Fact("harness", f"{name}" if variant in (None, name) else f"{name}, variant {variant}")
    detail = told.get("detail")
    yield Fact("ended by", f"{told.get('ended')}{f': {detail}' if detail else ''}")
    malformed = told.get("malformed")
    if isinstance(malformed, dict):
        counts = ", ".join(f"{kind} {count}" for kind, count in malformed.items() if count)
        yield Fact("malformed calls", counts or "none", "bad" if counts else "plain")


def _time(seconds: Mapping[str, float]) -> str:
    stages = [f"{stage} {duration(seconds[f'{stage}_s'])}" for stage in _STAGES if seconds[f"{stage}_s"]]
    total = duration(seconds["total_s"])
    return f"{total} ({', '.join(stages)})" if stages else total


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False, default=str)
