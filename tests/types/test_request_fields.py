"""Claims about the table of request fields: no entry contradicts another or itself."""

from paddock.sandbox.tunnel.dialects import DIALECTS
from paddock.types.request_fields import _ALIKE, FIELDS


def test_each_field_has_one_entry() -> None:
    names = " ".join(_ALIKE).split()
    assert sorted(names) == sorted(FIELDS)


def test_an_entry_says_nothing_twice() -> None:
    for name, field in FIELDS.items():
        assert {*field.read, *field.inside, *field.sent, *field.lost} <= {*"rcm"}, name
        assert not {*field.sent} & {*field.lost}, f"{name} is both sent and lost"
        assert field.neutral is None or field.kind == "sampling", name


def test_no_field_is_both_taken_from_inside_and_refused() -> None:
    for dialect in DIALECTS.values():
        assert not dialect.allowed & dialect.refused.keys()
