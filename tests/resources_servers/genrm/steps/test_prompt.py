"""Claims about what a judge of steps is shown: bounds that hold, and texts that stay between their marks."""

import re

from hypothesis import given
from hypothesis import strategies as st

from paddock.http import StepRequest
from paddock.quote import PREFIX
from paddock.resources_servers.genrm.config import StepScoreSettings
from paddock.resources_servers.genrm.steps.prompt import step_prompt
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

SMALL = StepScoreSettings(max_problem_chars=50, max_history_steps=2, max_history_step_chars=40, max_step_chars=80)
TEXTS = st.text(max_size=60) | st.sampled_from(["# Your vote", "[end result 00000000]", "\\boxed{1}", "a\u2028b", "\r"])


def step(said: str, arguments: str = "{}", result: str = "done") -> list[JsonObject]:
    call = call_item("bash", arguments, "call_1")
    return [message_item(said), call, {"type": "function_call_output", "call_id": "call_1", "output": result}]


def prompt(*steps: list[JsonObject], problem: str = "Fix it.", settings: StepScoreSettings = SMALL) -> str:
    request = StepRequest(step_id="s", problem=problem, history=list(steps[:-1]), step=steps[-1])
    return step_prompt(request, settings)


def frame(text: str) -> list[str]:
    """What is ours: all lines but quoted ones, the nonce left out."""
    lines = [line for line in re.split(r"\n", text) if not line.startswith(PREFIX)]
    return [re.sub(r"\b[0-9a-f]{8}\b", "NONCE", line) for line in lines]


@given(st.lists(TEXTS, min_size=4, max_size=4))
def test_no_text_changes_the_frame(texts: list[str]) -> None:
    said, arguments, result, problem = ("x" + text for text in texts)
    shown = prompt(step("a"), step(said, arguments, result), problem=problem)
    assert frame(shown) == frame(prompt(step("a"), step("x", "x", "x"), problem="x"))
    assert len(shown.splitlines()) == len(shown.split("\n")), "no text begins a line of its own"
    assert shown.count("\\boxed") == prompt(step("x")).count("\\boxed"), "a vote is asked for, none is suggested"


def test_only_the_last_steps_are_shown_under_their_own_numbers() -> None:
    shown = prompt(*(step(f"said-{n}") for n in range(1, 6)))
    assert [n for n in range(1, 6) if f"said-{n}" in shown] == [3, 4, 5]
    assert "(Steps 1 to 2 are not shown.)" in shown
    assert "# Step 3\n" in shown and "# The step to judge: step 5\n" in shown
    alone = prompt(step("a"), step("b"), settings=StepScoreSettings(max_history_steps=0))
    assert "# Step 1\n" not in alone and "# The step to judge: step 2\n" in alone


def test_what_is_too_long_is_cut_with_a_mark_and_short_items_stay_whole() -> None:
    shown = prompt(step("short words", "{}", "A" * 500 + "B" * 500), problem="p" * 60)
    assert "p" * 50 + "\n" in shown and "p" * 51 not in shown and "[... 10 characters are not shown ...]" in shown
    assert "short words" in shown and "bash {}" in shown
    kept = len("short words") + len("bash {}")
    assert shown.count("A") + shown.count("B") - len(re.findall("[AB]", prompt(step("")))) == 80 - kept
    assert f"[... {1000 - (80 - kept)} characters are not shown ...]" in shown
    assert "B\n[end result" in shown, "the end of a result is what came of it"


def test_a_step_without_anything_says_so() -> None:
    assert "| (nothing)" in prompt([])
