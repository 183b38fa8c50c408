"""One rollout as JSON for its page: what was said, cut; each text whole, in pieces; the tokens of one call.

Part    the name of a text: `turns/3/0` (turn from 0, item), `turns/3/0/change` (what a call edits), `task/0`, `patch`,
        `extras/NAME`, `row`, `raw`; `calls/2/0`: an item of what a recorded call was answered.
Units   lengths and offsets in characters; seconds; log-probs are natural.
Errors  KeyError: no such part, or no such call.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from paddock.collect.results import FailedAttempt
from paddock.types import Rollout, Turn
from paddock.types.responses import output_items
from paddock.viewer.changes import ChangedFile, changed_files
from paddock.viewer.rollout import outcome_facts, patch_text, tests_of
from paddock.viewer.turns import TurnItem, TurnView, turn_items, turn_views

PREVIEW = 4000
"""Characters of a text that come with the page; `MANY` texts and more have `SHORT_PREVIEW`."""
SHORT_PREVIEW = 1000
MANY = 200
PIECE = 200_000
"""Characters of a text that are given at once."""
MAX_TESTS = 2000
CALLS = "calls/"
MAX_TOKENS = 100_000
"""Ids of one call that are given."""


class _Texts(NamedTuple):
    """All texts of a rollout, by part."""

    by_part: dict[str, str]

    def preview(self, part: str) -> dict[str, Any]:
        text = self.by_part[part]
        length = PREVIEW if len(self.by_part) < MANY else SHORT_PREVIEW
        return {"part": part, "text": text[:length], "length": len(text)}


def rollout_page(rollout: Rollout) -> dict[str, Any]:
    """Everything of a rollout, with its texts cut."""
    turns = turn_views(rollout)
    texts = _Texts(_texts(rollout, turns))
    verdict = rollout.verdict
    return {
        "task": [_item(item, texts, f"task/{i}") for i, item in enumerate(_task_items(rollout))],
        "turns": [
            [_item(item, texts, f"turns/{i}/{j}") for j, item in enumerate(turn.items)] for i, turn in enumerate(turns)
        ],
        "calls": _calls(rollout.turns),
        "patch": texts.preview("patch") if "patch" in texts.by_part else None,
        "files": [file._asdict() for file in _files(turns, texts.by_part.get("patch"))],
        "commands": sum(call.change.is_command for turn in turns for call in turn.calls),
        "tests": {name: _tests(tests) for name, tests in tests_of(rollout).items()},
        "extras": [
            {"name": part.partition("/")[2], **texts.preview(part)}
            for part in texts.by_part
            if part.startswith("extras/")
        ],
        "facts": [list(fact) for fact in outcome_facts(rollout, len(turns))],
        "components": verdict.reward_components if verdict else {},
        "timing": rollout.timing.model_dump(),
        "engine": rollout.engine,
    }


def failure_page(failed: FailedAttempt) -> dict[str, Any]:
    """What there is of a rollout without a verdict: its last attempt."""
    return {"failure": failed.model_dump(exclude={"timing", "usage"}), "timing": failed.timing.model_dump()}


def text_piece(rollout: Rollout, part: str, offset: int) -> dict[str, Any]:
    """A piece of a text from `offset` on, and where the next begins (None: it is the last)."""
    text = _whole_text(rollout, part)
    end = offset + PIECE
    return {"text": text[offset:end], "length": len(text), "next": end if end < len(text) else None}


def call_page(rollout: Rollout, index: int) -> dict[str, Any]:
    """One recorded call: what it was answered, ids of its prompt since its parent's end, and what was sampled."""
    items = _call_items(rollout, index)
    turn = rollout.turns[index]
    return {
        "items": [
            {
                "kind": item.kind,
                "title": item.title,
                "part": f"{CALLS}{index}/{i}",
                "text": item.text[:PREVIEW],
                "length": len(item.text),
            }
            for i, item in enumerate(items)
        ],
        "prompt_ids": (turn.prompt_ids or [])[:MAX_TOKENS],
        "sampled_ids": (turn.sampled_ids or [])[:MAX_TOKENS],
        "log_probs": (turn.log_probs or [])[:MAX_TOKENS],
        "weight_version": turn.weight_version,
        "weight_spans": [span.model_dump() for span in turn.weight_spans],
        "exact": turn.sampled_ids is not None and turn.prompt_ids is not None and not turn.splice_broken,
        "sampling": turn.sampling,
    }


def _call_items(rollout: Rollout, index: int) -> list[TurnItem]:
    if not 0 <= index < len(rollout.turns):
        raise KeyError(f"call {index}")
    return turn_items(rollout.turns[index].output)


def _whole_text(rollout: Rollout, part: str) -> str:
    if part == "raw":
        return _json(rollout.to_wire())
    if not part.startswith(CALLS):
        return _texts(rollout, turn_views(rollout))[part]
    call, _, item = part.removeprefix(CALLS).partition("/")
    if not call.isdecimal() or not item.isdecimal():
        raise KeyError(part)
    items = dict(enumerate(_call_items(rollout, int(call))))
    return items[int(item)].text


def _texts(rollout: Rollout, turns: Sequence[TurnView]) -> dict[str, str]:
    texts = {f"task/{i}": item.text for i, item in enumerate(_task_items(rollout))}
    for i, turn in enumerate(turns):
        for j, item in enumerate(turn.items):
            texts[f"turns/{i}/{j}"] = item.text
            if item.change.diff:
                texts[f"turns/{i}/{j}/change"] = item.change.diff
    if (patch := patch_text(rollout)) is not None:
        texts["patch"] = patch
    if rollout.verdict is not None:
        texts |= {f"extras/{name}": _text(value) for name, value in _shown_extras(rollout.verdict.extras)}
    texts["row"] = _json(rollout.row.to_wire())
    return texts


def _shown_extras(extras: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in extras.items() if name != "tests" and value not in (None, [], {}))


def _task_items(rollout: Rollout) -> list[TurnItem]:
    """What the policy was given, then what its row expects."""
    task, params = rollout.row.task, rollout.row.responses_create_params
    items = []
    for text in (task.get("problem_statement"), params.get("instructions")):
        if isinstance(text, str) and text:
            items.append(TurnItem("text", "", text))
    given = params.get("input")
    items += turn_items([{"role": "user", "content": given}] if isinstance(given, str) else output_items(given))
    expected = task.get("expected_action", task.get("expected_answer"))
    if expected is not None:
        items.append(TurnItem("other", "expected", _text(expected)))
    return items


def _files(turns: Sequence[TurnView], patch: str | None) -> list[ChangedFile]:
    return changed_files([[call.change for call in turn.calls] for turn in turns], patch)


def _item(item: TurnItem, texts: _Texts, part: str) -> dict[str, Any]:
    change = f"{part}/change"
    edit = {"change": texts.preview(change)} if change in texts.by_part else {}
    return {"kind": item.kind, "title": item.title, **texts.preview(part), **edit}


def _calls(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """The recorded calls in their order, with the call that each continues, and how deep in the tree of branches it is:
    whatever continues a call after the first that did, and whatever begins anew, as a sub-agent does, is one deeper."""
    positions = {turn.id: i for i, turn in enumerate(turns)}
    depths: list[int] = []
    continued: set[int] = set()
    for i, turn in enumerate(turns):
        parent = None if turn.parent is None else positions.get(turn.parent)
        if parent is None:
            depths.append(0 if i == 0 or turn.prompt_ids is None else 1)
        else:
            depths.append(depths[parent] + (parent in continued))
            continued.add(parent)
    return [_call(turn, positions, depth) for turn, depth in zip(turns, depths, strict=True)]


def _call(turn: Turn, positions: Mapping[str, int], depth: int) -> dict[str, Any]:
    return {
        "parent": None if turn.parent is None else positions.get(turn.parent),
        "depth": depth,
        "prompt_tokens": None if turn.prompt_ids is None else len(turn.prompt_ids),
        "sampled_tokens": None if turn.sampled_ids is None else len(turn.sampled_ids),
        "usage": turn.usage and turn.usage.model_dump(),
        "weight_version": turn.weight_version,
        "finish_reason": turn.finish_reason,
        "splice_broken": turn.splice_broken,
    }


def _tests(tests: Mapping[str, str]) -> dict[str, Any]:
    ordered = sorted(tests.items(), key=lambda one: one[1] in ("PASSED", "XFAIL"))
    return {"count": len(tests), "shown": ordered[:MAX_TESTS]}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()
