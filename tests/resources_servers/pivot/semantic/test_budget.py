"""Claims on how much one comparison reads: counted steps, and what becomes of a response that would take more."""

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.pivot.semantic import SemanticOptions, compare, undecided_pair
from paddock.resources_servers.pivot.semantic.changes import MAX_CHANGES
from paddock.resources_servers.pivot.semantic.compare import MAX_STEPS
from paddock.resources_servers.pivot.semantic.intents.text_looks import same_looks
from paddock.resources_servers.pivot.task import ActionComparison, ExpectedBatch, ExpectedCall
from paddock.shell import BudgetError, StepBudget, limited, memo, parse, take
from paddock.types import JsonObject
from paddock.types.responses import call_item

OPTIONS = SemanticOptions(cwd="/r", partial_credit={})


def arguments(tool: str, **given: Any) -> JsonObject:
    return {"name": tool, "arguments": json.dumps(given)}


def command(text: str) -> JsonObject:
    return arguments("bash", command=text)


def replacement(old: str, new: str) -> JsonObject:
    return arguments("str_replace_editor", command="str_replace", path="/r/a.py", old_str=old, new_str=new)


def patch(old: str, new: str, hunks: int) -> JsonObject:
    body = "".join(f"@@\n-{old}{number}\n+{new}{number}\n" for number in range(hunks))
    return arguments("apply_patch", input=f"*** Begin Patch\n*** Update File: a.py\n{body}*** End Patch\n")


def judge(
    expected: list[JsonObject], actual: list[JsonObject], history: list[JsonObject] | None = None
) -> ActionComparison:
    calls = [ExpectedCall(type="function_call", **call) for call in expected]
    action = calls[0] if len(calls) == 1 else ExpectedBatch(type="function_call_batch", calls=calls)
    output = [call_item(call["name"], call["arguments"]) for call in actual]
    return compare(action, {"output": output}, {"input": history or []}, OPTIONS)


TOO_MUCH: dict[str, tuple[list[JsonObject], list[JsonObject]]] = {
    "commands": ([command("cat a.py")], [command(";".join(["cat a.py"] * 3000))]),
    "pipes": ([command("cat a.py")], [command("|".join(["sed -n -e 1,5p -e 7p"] * 900))]),
    "pairs": (
        [command(f"sed -n {line}p a.py") for line in range(1, 180, 3)],
        [command(f"sed -n {line}p b.py") for line in range(1, 180, 3)],
    ),
    "edits": (
        [replacement(f"o{number}", "x") for number in range(30)],
        [replacement(f"o{number}", "y") for number in range(30)],
    ),
    "Python": ([command("python -c 'print(1)'")], [command("python -c '" + "x=1;" * 4900 + "'")]),
    "a script of sed": ([command("cat a.py")], [command("sed -n '" + "1p;" * 15_000 + "' a.py")]),
}


def test_the_experts_own_calls_are_a_match_however_many_there_are() -> None:
    calls = [command(f"sed -n {line}p a.py") for line in range(1, 600, 3)]
    comparison = judge(calls, calls)
    assert (comparison.reward, comparison.metrics["matched"]) == (1.0, len(calls)), comparison


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_response_with_more_parts_than_are_read_earns_nothing(name: str) -> None:
    expected, actual = TOO_MUCH[name]
    comparison = judge(expected, actual)
    assert (comparison.reward, comparison.reason) == (0.0, "too_long")
    assert (comparison.metrics["expected_calls"], comparison.metrics["actual_calls"]) == (len(expected), len(actual))


def loops(depth: int, body: str, texts: int = 40) -> str:
    heads = [f"{'  ' * at}for v{at} in {[str(nth) for nth in range(texts)]}:\n" for at in range(depth)]
    return f"python3 - <<'E'\n{''.join(heads)}{'  ' * depth}{body}\nopen('a.txt', 'w').write('a')\nE"


HELD_UP = {
    "loops in loops": ("echo b > a.txt", loops(6, "print(v0)")),
    "a loop over much": ("echo b > a.txt", loops(1, ";".join(["print(v0)"] * 1500))),
    "a loop over imports": ("echo b > a.txt", loops(1, ";".join(["import os"] * 2000))),
    "a substitution of escapes": ("sed 's/a/b/w out' a.txt", "sed 's/" + "\\a" * 60 + "/x/w out' a.txt"),
    "blanks in an insertion": ("sed -i '3a x' a.txt", f"sed -i '3a{' ' * 40_000}\\' a.txt"),
    "blanks in awk": ("awk '/x/ {print}' a.txt", f"awk '/x/ {{print{' ' * 40_000}x' a.txt"),
    "blanks in sed": ("sed -n '=;p' a.txt", f"sed -n '{{={' ' * 40_000}x' a.txt"),
}


@pytest.mark.timeout(20)  # Each would take minutes, or no end, where work grows faster than its text.
@pytest.mark.parametrize("name", HELD_UP)
def test_no_text_holds_a_judgement_up(name: str) -> None:
    expected, actual = HELD_UP[name]
    comparison = judge([command(expected)], [command(actual)])
    assert comparison.reward < 1.0, comparison


@pytest.mark.timeout(20)
@pytest.mark.parametrize("unit", [",", ", ", "a, ", " "])
def test_no_sentence_holds_a_judgement_up(unit: str) -> None:
    expected = arguments("say", text="Hello to all of you, my dear friends.")
    assert judge([expected], [arguments("say", text="a " + unit * (45_000 // len(unit)) + "b")]).reward < 1.0


@pytest.mark.timeout(20)  # A minute, where all calls are searched for formatters again for each file.
def test_no_number_of_files_reads_a_long_history_as_often() -> None:
    past: list[JsonObject] = []
    for number in range(3000):
        call = {**call_item("bash", json.dumps({"command": "; black_ " * 500})), "call_id": f"h{number}"}
        past += [call, {"type": "function_call_output", "call_id": call["call_id"], "output": ""}]
    edits = [
        [
            arguments("str_replace_editor", command="str_replace", path=f"/r/f{nth}.py", old_str="a", new_str=new)
            for nth in range(40)
        ]
        for new in ("x", "y")
    ]
    assert judge(edits[0], edits[1], past).reward < 1.0


@pytest.mark.parametrize("name", ["commands", "pipes", "Python", "a script of sed"])
def test_a_long_call_that_is_the_experts_own_is_read_by_nobody_and_matches(name: str) -> None:
    long = TOO_MUCH[name][1]
    assert judge(long, long).reward == 1.0


def script(name: str) -> str:
    return "".join(f'if [ -f src/{name}{n}.py ]; then\n  echo "found {n}" >> out.txt\nfi\n' for n in range(100))


def definitions(comma: str) -> JsonObject:
    text = "".join(f"def f{n}(a{comma}b):\n    return a + b * {n}\n\n" for n in range(430))
    return arguments("write", filePath="/r/b.py", content=text)


JUDGED: dict[str, tuple[JsonObject, JsonObject, str]] = {
    "400 commands": (
        command("\n".join(f"cat a{n}.py" for n in range(400))),
        command("\n".join(f"cat b{n}.py" for n in range(400))),
        "command_differs",
    ),
    "400 commands that write": (
        command("\n".join(f"echo 'line {n}' >> a.txt" for n in range(400))),
        command("\n".join(f"echo 'text {n}' >> a.txt" for n in range(400))),
        "command_differs",
    ),
    "a script of 300 lines": (command(script("a")), command(script("b")), "command_differs"),
    "another formatting of 18 kB": (definitions(", "), definitions(","), "match"),
}


@pytest.mark.parametrize("name", JUDGED)
def test_long_calls_as_people_write_them_are_judged(name: str) -> None:
    expected, actual, reason = JUDGED[name]
    assert judge([expected], [actual]).reason == reason


def test_twenty_pipelines_that_are_all_wrong_are_judged() -> None:
    def searches(text: str) -> list[JsonObject]:
        return [command(f"grep -rn '{text}{number}' src | sort | uniq -c") for number in range(20)]

    assert judge(searches("x"), searches("y")).reason == "command_differs"
    assert judge(searches("x"), searches("x")[::-1]).reward == 1.0


def test_what_destroys_behind_more_than_is_read_earns_nothing_beside_a_match() -> None:
    hidden = command(";".join(["ls"] * 3000) + ";rm -rf /")
    assert judge([command("cat a.py"), command("ls b")], [command("cat a.py"), hidden]).reward == 0.0


def test_more_changes_than_are_compared_are_the_same_as_equal_ones_only() -> None:
    many = MAX_CHANGES + 1
    assert judge([patch("o", "n", many)], [patch("o", "n", many)]).reward == 1.0
    other = judge([patch("o", "n", many)], [patch("o", "m", many)])
    assert (other.reward < 1.0, other.reason) == (True, "edit_differs")


def test_a_history_that_takes_more_than_is_read_leaves_the_file_unknown() -> None:
    def steps(views: int) -> list[JsonObject]:
        texts = ["cat a.py; " * 40 + f"echo {number}" for number in range(views)]
        shown = [call_item("bash", json.dumps({"command": text}), f"c{number}") for number, text in enumerate(texts)]
        last = call_item("bash", json.dumps({"command": "cat a.py"}), "last")
        return [*shown, last, {"type": "function_call_output", "call_id": "last", "output": "x = 1\ny = 1\n"}]

    edit = replacement("x = 1", "x = 2")
    sed = command("sed -i 's/^x = 1$/x = 2/' a.py")
    assert judge([edit], [sed], steps(1)).reward == 1.0
    assert judge([edit], [sed], steps(400)).reward < 1.0


def test_no_pair_is_undecided_that_takes_more_than_is_read() -> None:
    (expected,), (actual,) = TOO_MUCH["commands"]
    output = [call_item(actual["name"], actual["arguments"])]
    call = ExpectedCall(type="function_call", **expected)
    assert undecided_pair(call, {"output": output}, {"input": []}, OPTIONS, {}) is None


def test_steps_are_counted_where_a_budget_is_in_force_and_each_text_once() -> None:
    budget = StepBudget(MAX_STEPS)
    parse("cat a.py | head")
    with memo(), limited(budget):
        parse("cat a.py | head")
        left = budget.left
        parse("cat a.py | head")
    assert budget.left == left < MAX_STEPS


def test_after_a_budget_has_ended_no_step_is_taken_from_it() -> None:
    with limited(StepBudget(3)):
        with pytest.raises(BudgetError):
            take(4)
        with pytest.raises(BudgetError):
            take(1)
    take(10**9)


STATEMENTS = st.lists(
    st.sampled_from(["x = 1", "x  =  1", "x = (1)", "x = '1'", "@d\ndef f():\n  pass", "@e\ndef f():\n  pass", "# c"])
)


@given(STATEMENTS, STATEMENTS, st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_looks_of_python_are_those_of_the_whole_tree(own: list[str], other: list[str], newline: str) -> None:
    texts = [newline.join(text.replace("\n", newline) for text in side) + newline for side in (own, other)]
    trees = [ast.dump(ast.parse(text)) for text in texts]
    expected = texts[0].removesuffix("\n") == texts[1].removesuffix("\n") or (
        trees[0] == trees[1] != ast.dump(ast.parse("y = 0"))
    )
    assert same_looks("a.py", "y = 0\n", *texts) == expected
