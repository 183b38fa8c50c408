"""Lengths and formatting of a response are counted by the stated rules."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.genrm.scoring.traits import style_density, traits_of
from paddock.types.responses import call_item, message_item


def reasoning(**fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [], **fields}


def test_lengths_of_messages_and_reasoning() -> None:
    response = {
        "output": [
            reasoning(summary=[{"type": "summary_text", "text": "abc"}, {"type": "summary_text", "text": "de"}]),
            message_item("Hällo"),
            call_item("bash", '{"command": "ls"}'),
            reasoning(content=[{"type": "reasoning_text", "text": "1234567"}]),
            reasoning(
                summary=[{"type": "summary_text", "text": "x"}], content=[{"type": "reasoning_text", "text": "long"}]
            ),
            {"type": "message", "role": "user", "content": "not an answer"},
            message_item(" 👍"),
        ]
    }
    traits = traits_of(response)
    assert traits.answer_chars == 5 + 2
    assert traits.reasoning_chars == 3 + 2 + 7 + 1
    assert traits.style_density == 1 / 7


@pytest.mark.parametrize("response", [{}, {"output": None}, {"output": [message_item("")]}])
def test_nothing_is_zero(response: dict[str, Any]) -> None:
    traits = traits_of(response)
    assert (traits.answer_chars, traits.reasoning_chars, traits.style_density) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("# One\n###### Six\n####### seven\n#none\n a # b", 2),
        ("- a\n* b\n  + c\n1. d\n\n12. e\n-f\n1.5 g\n2) h\nx - y", 5),
        ("**bold** and __strong__, snake__case__name too, not ** blank\n**", 3),
        ("fine ✅ 🚀🚀 é © 好。", 3),
        ("plain text", 0),
    ],
)
def test_marks(text: str, marks: int) -> None:
    assert style_density(text) == marks / len(text)


def test_fenced_code_counts_on_neither_side() -> None:
    assert style_density("# A\n```py\n# comment\n- x\n```\nend") == 1 / len("# A\n\nend")
    assert style_density("```\n# only code\n```") == 0.0
    open_fence = "```\n# not closed"
    assert style_density(open_fence) == 1 / len(open_fence)


@given(
    st.recursive(
        st.none() | st.text(max_size=5) | st.integers(), lambda inner: st.lists(inner, max_size=3), max_leaves=5
    )
)
def test_no_json_raises(content: Any) -> None:
    items = [
        {"type": "message", "content": content},
        {"type": "reasoning", "summary": content, "content": content},
        content,
    ]
    assert traits_of({"output": items}).style_density >= 0


@pytest.mark.parametrize("unit", ["*", "**a", "__a", "\n", "\n ", " ", "```", "`", "1", "#", "- ", "\n-\t"])
def test_hostile_texts_take_linear_time(unit: str) -> None:
    started = time.monotonic()
    style_density(unit * (300_000 // len(unit)))
    assert time.monotonic() - started < 30
