"""Claims about tests made false: what they say, and that no other byte changes."""

import ast
import random
from typing import Any

import pytest

from paddock.resources_servers.swe.grading.falsify import falsified


def made(source: str, *names: str, blunt: tuple[str, ...] = (), seed: int = 1) -> str:
    data = falsified(source.encode(), names or ("test_a",), blunt, chance=random.Random(seed))
    ast.parse(data)
    return data.decode()


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


class Case:
    def assertEqual(self, found: Any, wanted: Any) -> None:  # noqa: N802 - unittest's name
        assert found == wanted


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
    given = {"f": lambda: 3, "three": 3, "arguments": (Case(),)}
    source = body(line)
    assert outcome(source, **given) == "passed"
    for seed in range(6):
        false = made(source, seed=seed)
        blunt = made(source, blunt=("test_a",), seed=seed)
        assert outcome(blunt, **given) == "failed"
        assert outcome(false, **given) == "failed", false


def test_what_equals_everything_still_passes_a_false_test() -> None:
    class Anything:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

    for line in ("assert f() == 3", "assert f() == three", "self.assertEqual(f(), 3)"):
        assert outcome(made(body(line)), f=Anything, three=3, arguments=(Case(),)) == "passed"


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
    false = falsified(source, ["test_a"], [], chance=random.Random(1))
    assert false.startswith(b"\xef\xbb\xbfdef test_a(): assert f() == ")
    assert false != source


@pytest.mark.parametrize("source", [b"def test_a(:\n", b"print 'two'\n", b"\xff\xfe\x00", b"x = 1\n"])
def test_what_is_no_python_or_has_no_such_test_stays(source: bytes) -> None:
    assert falsified(source, ["test_a"], [], chance=random.Random(1)) == source
