"""Claims about tests made false: what they say, and that no other byte changes."""

import ast
import random
import re
from typing import Any

import pytest

from paddock.resources_servers.swe.grading.falsify import apply_edits, falsifications
from paddock.resources_servers.swe.grading.literals import changed_literal, similar_literal


def all_made(source: str, *names: str, seen: str = "", seed: int = 1) -> list[str]:
    """The source with each change, alone, in their order."""
    data = source.encode()
    known = [line.strip() for line in seen.encode().splitlines()]
    found = falsifications(data, names or ("test_a",), known, chance=random.Random(seed))
    made = [apply_edits(data, change.edits) for change in found]
    for one in made:
        ast.parse(one)
    return [one.decode() for one in made]


def made(source: str, *names: str, seed: int = 1) -> str:
    return all_made(source, *names, seed=seed)[0]


def body(line: str) -> str:
    return f"def test_a(self=None):\n    {line}\n"


def outcome(source: str, **given: Any) -> str:
    scope: dict[str, Any] = {**given}
    exec(compile(source, "x", "exec"), scope)  # its own text is what is tested
    try:
        scope["test_a"](*scope.get("arguments", ()))
    except AssertionError:
        return "failed"
    return "passed"


class FakeTestCase:
    def assertEqual(self, found: Any, wanted: Any) -> None:  # noqa: N802 - unittest's name
        assert found == wanted

    def assertNotEqual(self, found: Any, wanted: Any) -> None:  # noqa: N802 - unittest's name
        assert found != wanted


@pytest.mark.parametrize(
    "line",
    [
        "assert f() == 3",
        "assert 3 == f()",
        "assert [f(), 1] == [3, 1]",
        "assert {'a': f()} == {'a': 3}",
        "assert str(f()) == 'drei'[:0] + '3'",
        "assert f() == three",
        "assert three == f()",
        "assert f() in (3, 4)",
        "assert f() is not None, 'why'",
        "self.assertEqual(f(), 3)",
        "self.assertEqual(\n        f(),\n        3,\n    )",
        "self.assertEqual(f(), three)",
        "assert f'{f()}' == f'{three}'",
        "assert f() == 3; f()",
        "assert (f() ==\n            3)",
        "for n in (1, 2): assert f() == 3",
        "'''What it tests.'''\n    f()",
        "@str\n    def g(): pass\n    f()",
        "assert bytes([f()]) == b'\\x03'",
        "assert bool(f()) == True",
        "assert f() - 3.0 == 0.0",
    ],
)
def test_a_test_made_false_fails_where_the_code_is_right(line: str) -> None:
    given = {"f": lambda: 3, "three": 3, "arguments": (FakeTestCase(),)}
    source = body(line)
    assert outcome(source, **given) == "passed"
    for seed in range(6):
        for false in all_made(source, seed=seed):
            assert outcome(false, **given) == "failed", false


def test_what_equals_everything_still_passes_a_false_test() -> None:
    class Anything:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, changed_literal: object) -> bool:
            return True

        def __ne__(self, changed_literal: object) -> bool:
            return False

    for line in ("assert f() == 3", "assert f() == three", "self.assertEqual(f(), 3)"):
        assert outcome(made(body(line)), f=Anything, three=3, arguments=(FakeTestCase(),)) == "passed"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('"ab"', r'"[a-z]{2,3}"'),
        ("'ab'", r"'[a-z]{2,3}'"),
        ('rb"a/b"', r'rb"[a-z]/[a-z]{1,2}"'),
        ('"""one\ntwo"""', r'"""[a-z]{3}\n[a-z]{3,4}"""'),
        ('"\\n"', r'"\\n.?n?"|"\\n[a-z]"'),
        ('""', r'"[a-z]"'),
        ("0xFF", r"0x[0-9a-fA-F]{2}"),
        ("1_000", r"\d_\d{3}"),
        ("1.50", r"\d\.\d{2}"),
        ("2e3", r"\de3"),
        ("0", r"[1-9]"),
        ("True", r"False"),
    ],
)
def test_another_literal_has_the_form_of_the_first(text: str, form: str) -> None:
    for seed in range(40):
        made = changed_literal(text.encode(), random.Random(seed))
        assert made is not None
        assert re.fullmatch(form, made.decode()), made
        assert ast.literal_eval(made.decode()) != ast.literal_eval(text)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("assert f() in three", "assert f() not in three"),
        ("assert f() is not None", "assert f() is None"),
        ("assert f() <= three", "assert f() > three"),
        ("assert f.ready", "assert not f.ready"),
        ("assert not f.ready", "assert f.ready"),
        ("assert f.ready and f.done", "assert not f.ready and f.done"),
        ("self.assertTrue(f())", "self.assertFalse(f())"),
        ("self.assertNotIn(f(), three)", "self.assertIn(f(), three)"),
    ],
)
def test_a_comparison_without_a_literal_is_the_contrary_one(line: str, wanted: str) -> None:
    assert made(body(line)) == body(wanted)


def test_a_side_that_is_no_literal_becomes_one_like_those_of_the_file() -> None:
    for seed in range(20):
        false = made(body("assert f() == three") + '\n\ndef test_b():\n    assert g() == "ab"\n', seed=seed)
        assert re.search(r'assert f\(\) == "[a-z]{2,3}"\n', false), false


def test_only_chosen_functions_change_and_no_other_byte() -> None:
    source = (
        "# é\r\nclass T:\r\n\tdef test_a(self):\r\n\t\tassert 'é' == f()  # 1\r\n\r\n"
        "\tdef test_b(self): assert f() == 3"
    )
    false = made(source, "test_a")
    before, after = source.split("assert", 1)[0], source.split("== f()", 1)[1]
    assert false != source
    assert (false.startswith(before), false.endswith(after)) == (True, True)


def test_a_byte_order_mark_moves_nothing() -> None:
    source = b"\xef\xbb\xbfdef test_a(): assert f() == 3\n"
    false = apply_edits(source, falsifications(source, ["test_a"], [], chance=random.Random(1))[0].edits)
    assert false.startswith(b"\xef\xbb\xbfdef test_a(): assert f() == ")
    assert false != source


@pytest.mark.parametrize("source", [b"def test_a(:\n", b"print 'two'\n", b"\xff\xfe\x00", b"x = 1\n"])
def test_what_is_no_python_or_has_no_such_test_has_no_changes(source: bytes) -> None:
    assert falsifications(source, ["test_a"], [], chance=random.Random(1)) == []


def test_an_exception_that_is_wanted_becomes_another_that_is_no_kind_of_it() -> None:
    for seed in range(20):
        false = made(body("with pytest.raises(LookupError):\n        f()"), seed=seed)
        found = re.search(r"pytest\.raises\((\w+)\)", false)
        assert found is not None
        assert found[1] in ("ValueError", "TypeError", "AttributeError", "RuntimeError", "OSError")


def test_an_exception_of_which_all_are_kinds_stays() -> None:
    for name in ("Exception", "BaseException"):
        assert all_made(body(f"with pytest.raises({name}):\n        f()")) == []


def test_a_test_that_claims_nothing_is_given_a_claim() -> None:
    assert re.fullmatch(
        r"def test_a\(\):\n    x = f\(\)\n    x\.go\(\)\n    assert x == \d+\n",
        made("def test_a():\n    x = f()\n    x.go()\n"),
    )
    assert re.fullmatch(r"def test_a\(\):\n    assert f\(\) == \d+\n", made("def test_a():\n    f()\n"))


def test_lines_that_have_been_seen_stay() -> None:
    old = "def test_a():\n    assert f() == 3\n    assert g() == 4\n"
    new = "def test_a():\n    assert f() == 3\n    assert g() == 5\n    assert h(6)\n"
    for seed in range(20):
        for false in all_made(new, seen=old, seed=seed):
            assert false.startswith("def test_a():\n    assert f() == 3\n"), false
    assert all_made(old, seen=old) == []


def test_a_literal_is_rather_another_one_of_the_file() -> None:
    literals = [b"'ab'", b'"ab"', b'"xyz"', b'b"ab"', b"12", b"345", b"1.5"]
    assert {similar_literal(b'"pq"', literals, random.Random(seed)) for seed in range(20)} == {b'"ab"', b'"xyz"'}
    assert similar_literal(b"77", literals, random.Random(1)) == b"12"
    assert similar_literal(b"True", [b"False", b"1"], random.Random(1)) is None
    assert similar_literal(b"0x1F", literals, random.Random(1)) is None


def test_numbers_are_changed_before_texts() -> None:
    for seed in range(20):
        false = made("def test_a():\n    assert f() == 'drei'\n    assert g() == 3\n", seed=seed)
        assert "f() == 'drei'" in false
