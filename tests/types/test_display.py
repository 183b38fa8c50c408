"""Claims about how records show themselves."""

import re

import pytest

from paddock.types import Failure, Outcome, Rollout, Row, Session, Verdict
from paddock.types.display import CUT_CHARS
from paddock.types.responses import call_item, message_item

VERDICT = Verdict(reward=0.0, reason="target_differs", comparator="semantic", detail="a.py, not b.py", metrics={"n": 2})
ROW = Row(
    responses_create_params={"input": "hi"},
    task={"expected_action": {"type": "function_call", "name": "edit", "arguments": '{"path": "a.py"}'}},
)
NASTY = "<script>alert('x')</script>"


def rollout(outcome: Outcome = "completed", **fields: object) -> Rollout:
    response = {"output": [call_item("edit", '{"path": "b.py"}'), message_item(NASTY)]}
    return Rollout.model_validate({"row": ROW, "outcome": outcome, "response": response, **fields})


def test_one_line_says_how_it_went_and_why() -> None:
    assert str(VERDICT) == "reward 0, target_differs (semantic): a.py, not b.py"
    assert str(rollout(verdict=VERDICT)) == f"completed: {VERDICT}; 0 turns, 0.00 s"
    failure = Failure(owner="infra", kind="timeout", message="no answer", stage="model")
    assert str(rollout("infra", failure=failure)) == (
        "infra: infra failure in model, timeout: no answer; 0 turns, 0.00 s"
    )
    assert str(Session()) == "nothing but the row's prompt"
    assert str(Session(workdir="/w", visible={"goal": 1})) == "workdir /w; visible goal"


def test_a_notebook_shows_expected_beside_given() -> None:
    html = rollout(verdict=VERDICT)._repr_html_()
    cells = dict(re.findall(r"<th[^>]*>([^<]*)</th><td[^>]*>(.*?)</td>", html, re.DOTALL))
    assert "edit({&quot;path&quot;: &quot;a.py&quot;})" in cells["expected"]
    assert "edit({&quot;path&quot;: &quot;b.py&quot;})" in cells["given"]
    assert "target_differs" in cells["reason"]
    assert ">0<" in cells["reward"]


def test_a_failure_is_never_shown_as_a_reward() -> None:
    failure = Failure(owner="infra", kind="timeout", message="no answer")
    html = rollout("infra", failure=failure)._repr_html_()
    assert "no answer" in html
    assert "reward" not in html


@pytest.mark.parametrize(
    "record",
    [
        rollout(verdict=VERDICT),
        Verdict(reward=1, reason="r", reward_components={NASTY: 1.5, "b": -0.5}),
        Verdict(reward=1, reason=NASTY, detail=NASTY, comparator=NASTY, metrics={NASTY: 1.0}, extras={NASTY: NASTY}),
        Session(image=NASTY, workdir=NASTY, tools=[{"name": NASTY}], visible={NASTY: {NASTY: NASTY}}),
        rollout("infra", failure=Failure(owner="infra", kind=NASTY, message=NASTY, stage=NASTY)),
    ],
)
def test_nothing_that_came_from_elsewhere_is_markup(record: Rollout | Verdict | Session) -> None:
    assert "<script" not in record._repr_html_()


def test_a_long_value_is_cut_with_a_mark() -> None:
    html = Verdict(reward=1, reason="match", detail="x" * (CUT_CHARS + 7))._repr_html_()
    assert "(7 more characters)" in html
    assert len(html) < 2 * CUT_CHARS


def test_a_batch_and_a_message_are_shown_as_a_reader_wants_them() -> None:
    calls = [{"name": "a", "arguments": "{}"}, {"name": "b", "arguments": "{}"}]
    row = Row(responses_create_params={"input": "x"}, task={"expected_action": {"type": "batch", "calls": calls}})
    html = Rollout(row=row, outcome="completed", verdict=VERDICT)._repr_html_()
    assert "a({})\nb({})" in html
    said = Row(responses_create_params={"input": "x"}, task={"expected_answer": "forty-two"})
    assert "forty-two" in Rollout(row=said, outcome="completed", verdict=VERDICT)._repr_html_()


def test_parts_of_a_reward_are_shown_where_it_has_several() -> None:
    assert "made of" not in Verdict(reward=1, reason="r", reward_components={"judge": 1.0})._repr_html_()
    assert (
        "judge 1.5, length -0.5"
        in Verdict(reward=1, reason="r", reward_components={"judge": 1.5, "length": -0.5})._repr_html_()
    )
