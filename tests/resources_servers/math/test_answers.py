"""Claims about which text of a response is its answer."""

import pytest

from paddock.resources_servers.math.answers import answer_of, is_balanced, written
from paddock.types import JsonObject
from paddock.types.responses import message_item


def response(*texts: str) -> JsonObject:
    return {"output": [message_item(text) for text in texts]}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So it is \boxed{42}.", "42"),
        (r"First \boxed{1}." + "\n\n" + r"No: $\boxed{2}$", "2"),
        (r"\boxed{\frac{1}{\sqrt{2}}} is it, by \{ and \}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"\fbox{7}", "7"),
        (r"\boxed {7}", "7"),
        (r"\boxed{$7$}", "7"),
        (r"\boxed{5} and again \boxed{5}", "5"),
        (r"\boxed{5} or \boxed{6}", "5, 6"),
        (r"a \boxed{5}, cut off \boxed{6", "5"),
        ("\\boxed{\\begin{pmatrix}1\\\\\n2\\end{pmatrix}}", r"\begin{pmatrix}1\\ 2\end{pmatrix}"),
        ("Some words.\nThe answer is 42.", "42"),
        ("**Final answer:** 3/4", "3/4"),
        ("Answer: $x = 4$", "x = 4"),
        ("The answer is $\\frac{1}{2}$.", r"\frac{1}{2}"),
        ("We get\n\\[ x^2 + 1 \\]\n", "x^2 + 1"),
        ("So there are 12 apples.", "12"),
        ("42", "42"),
        ("3, 4", "3, 4"),
        ("Answer: yes", "yes"),
        ("<think>it is \\boxed{1}</think>It is \\boxed{2}", "2"),
        ("\\boxed{1{,}000}", "1000"),
        ("\\boxed{1\\,000\\,000}", "1000000"),
        ("\\boxed{−3}", "-3"),
        ("\\boxed{\\$5}", "5"),
    ],
)
def test_the_answer_of(text: str, answer: str) -> None:
    found = answer_of(response(text))
    assert (found.text, found.problem) == (answer, "")


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ((), "no_answer"),
        (("", " \n "), "no_answer"),
        (("I do not know.",), "no_answer"),
        (("<think>\\boxed{4}",), "no_answer"),
        (("\\boxed{4}<think>or \\boxed{5}",), "no_answer"),
        (("\\boxed{ }",), "no_answer"),
        (("It is one of 1, 2 or 3 apples.",), "several_answers"),
        (("The answer is 4 or maybe 5",), "several_answers"),
        ((r"\boxed{1 \text{ or } \boxed{2}}",), "several_answers"),
    ],
)
def test_no_answer(texts: tuple[str, ...], problem: str) -> None:
    assert answer_of(response(*texts)) == ("", problem)


def test_the_last_message_with_text_counts() -> None:
    assert answer_of(response("\\boxed{1}", "\\boxed{2}", " ")).text == "2"


def test_long_texts_are_read_at_once() -> None:
    """Quadratic reading of any of these would take minutes."""
    for text in (
        "\\boxed{" * 200_000,
        "{" * 500_000 + "\\boxed{3}",
        "answer " * 100_000,
        "1 " * 200_000,
        "$" * 300_000,
    ):
        answer_of(response(text))


def test_what_ends_its_own_box_is_not_balanced() -> None:
    assert is_balanced(r"\frac{1}{2}\}")
    assert not is_balanced("1} or \\boxed{2")
    assert not is_balanced("{1")


def test_an_answer_is_written_once() -> None:
    for text in (r"\(\frac12\)", r"\boxed{x}", "$$1,000$$", r"2\,000 .", r"a \quad b", "$1$ or $2$"):
        assert written(written(text)) == written(text)
