"""Display of records: one line as text, a small table in a notebook.

Law     whatever comes from a row, a model or a server is escaped, and cut at `CUT_CHARS` with a mark.
        Nothing here computes: a reward is shown as it is recorded, a failure never as a reward.
"""

import json
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

from paddock.types.responses import content_text, item_type, output_items

if TYPE_CHECKING:
    from paddock.types.records import Failure, JsonObject, Rollout, Session, Usage, Verdict

CUT_CHARS = 2000
"""Longest value that is shown whole."""
GOOD, BAD, NONE = "#1a7f37", "#cf222e", "#6e7781"
"""Colours of a full reward, of less, and of none."""

Cell = tuple[str, str]
"""A label, and what stands beside it as HTML."""


def verdict_line(verdict: "Verdict") -> str:
    by = f" ({verdict.comparator})" if verdict.comparator else ""
    detail = f": {verdict.detail}" if verdict.detail else ""
    return f"reward {verdict.reward:g}, {verdict.reason}{by}{detail}"


def sum_of(verdict: "Verdict") -> str:
    """The components of a reward, as text."""
    return ", ".join(f"{name} {part:g}" for name, part in verdict.reward_components.items())


def failure_line(failure: "Failure") -> str:
    stage = f" in {failure.stage}" if failure.stage else ""
    return f"{failure.owner} failure{stage}, {failure.kind}: {failure.message}"


def rollout_line(rollout: "Rollout") -> str:
    what = verdict_line(rollout.verdict) if rollout.verdict else ""
    what = failure_line(rollout.failure) if rollout.failure else what
    return f"{rollout.outcome}: {what}; {_turns(rollout)}, {rollout.timing.total_s:.2f} s"


def usage_text(usage: "Usage") -> str:
    """`1200 in (800 cached), 90 out (40 reasoning)`; what is 0 of the parts is left out."""
    cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
    reasoning = f" ({usage.reasoning_tokens} reasoning)" if usage.reasoning_tokens else ""
    return f"{usage.input_tokens} in{cached}, {usage.output_tokens} out{reasoning}"


def session_line(session: "Session") -> str:
    facts = {"session": session.session_id, "image": session.image, "workdir": session.workdir}
    shown = [f"{label} {value}" for label, value in facts.items() if value is not None]
    shown += [f"tools {', '.join(_tool_names(session))}"] if session.tools else []
    shown += [f"visible {', '.join(session.visible)}"] if session.visible else []
    return "; ".join(shown) or "nothing but the row's prompt"


def verdict_html(verdict: "Verdict") -> str:
    return _table(_verdict_cells(verdict))


def rollout_html(rollout: "Rollout") -> str:
    cells: list[Cell] = [("outcome", f"<b>{escape(rollout.outcome)}</b>")]
    if rollout.verdict:
        cells += _verdict_cells(rollout.verdict)
    if rollout.failure:
        cells.append(("failure", _coloured(failure_line(rollout.failure), NONE)))
    expected = rollout.row.task.get("expected_action") or rollout.row.task.get("expected_answer")
    if expected is not None:
        cells.append(("expected", _pre(_action(expected))))
    if rollout.response is not None:
        cells.append(("given", _pre("\n".join(map(item_line, output_items(rollout.response))) or "nothing")))
    facts = f"{_turns(rollout)}, tokens {usage_text(rollout.usage)}"
    cells.append(("spent", escape(f"{facts}, {rollout.timing.total_s:.2f} s")))
    return _table(cells)


def session_html(session: "Session") -> str:
    facts = {"session": session.session_id, "image": session.image, "workdir": session.workdir}
    cells = [(label, escape(value)) for label, value in facts.items() if value is not None]
    if session.tools:
        cells.append(("tools", escape(", ".join(_tool_names(session)))))
    cells += [(name, _pre(_text(value))) for name, value in session.visible.items()]
    return _table(cells or [("session", "nothing but the row's prompt")])


def item_line(item: "JsonObject") -> str:
    """An output item as text: a call as written, a message's text."""
    kind = item_type(item)
    if kind in ("function_call", "custom_tool_call"):
        return f"{item.get('name')}({item.get('arguments', item.get('input', ''))})"
    text = content_text(item.get("content"))
    return text or f"[{kind or 'item'}]"


def _verdict_cells(verdict: "Verdict") -> list[Cell]:
    cells = [
        ("reward", _coloured(f"{verdict.reward:g}", GOOD if verdict.reward >= 1.0 else BAD)),
        ("reason", escape(verdict.reason)),
    ]
    if len(verdict.reward_components) > 1:
        cells.append(("made of", escape(sum_of(verdict))))
    if verdict.detail:
        cells.append(("detail", _pre(verdict.detail)))
    if verdict.comparator:
        cells.append(("comparator", escape(verdict.comparator)))
    if verdict.metrics:
        cells.append(("metrics", escape(", ".join(f"{name} {value:g}" for name, value in verdict.metrics.items()))))
    cells += [(name, _pre(_text(value))) for name, value in verdict.extras.items()]
    return cells


def _turns(rollout: "Rollout") -> str:
    return "1 turn" if len(rollout.turns) == 1 else f"{len(rollout.turns)} turns"


def _tool_names(session: "Session") -> list[str]:
    return [str(tool.get("name", "?")) for tool in session.tools]


def _action(action: Any) -> str:
    """An expected action, in the form of `item_line` where it has one."""
    if not isinstance(action, dict):
        return _text(action)
    calls = action.get("calls")
    if isinstance(calls, list):
        return "\n".join(item_line({"type": "function_call", **call}) for call in calls if isinstance(call, dict))
    return item_line(action)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False, default=str)


def _pre(text: str) -> str:
    cut = text if len(text) <= CUT_CHARS else f"{text[:CUT_CHARS]}… ({len(text) - CUT_CHARS} more characters)"
    return f'<pre style="white-space:pre-wrap;margin:0;text-align:left">{escape(cut)}</pre>'


def _coloured(text: str, colour: str) -> str:
    return f'<b style="color:{colour}">{escape(text)}</b>'


def _table(cells: Iterable[Cell]) -> str:
    left = "text-align:left;vertical-align:top"
    rows = "".join(
        f'<tr><th style="{left}">{escape(label)}</th><td style="{left}">{html}</td></tr>' for label, html in cells
    )
    return f"<table>{rows}</table>"
