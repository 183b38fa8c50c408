"""Claims about rows of experts: what is cut and joined again is the same, as text too, in whatever width."""

import base64
import itertools
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.types import RoutedExperts
from paddock.types.routed_experts import text_shape

LIMITS = (127, 32767, 2**31 - 1)


@st.composite
def experts(draw: st.DrawFn) -> RoutedExperts:
    rows, layers, k = draw(st.integers(1, 7)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    limits = [draw(st.sampled_from(LIMITS)) for _ in range(rows)]
    ids = [draw(st.integers(0, limit)) for limit in limits for _ in range(layers * k)]
    data = array("i", ids).tobytes()
    return RoutedExperts.of_int32(data, draw(st.integers(0, 5)), rows=rows, k=k)


def ids_of(one: RoutedExperts) -> list[int]:
    return list(array({1: "b", 2: "h", 4: "i"}[one.width], one.data))


@given(experts(), st.data())
def test_parts_that_went_through_text_join_to_the_whole(whole: RoutedExperts, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(whole.start, whole.end), max_size=3)))
    edges = [whole.start, *cuts, whole.end]
    parts = [whole.part(*pair) for pair in itertools.pairwise(edges)]
    narrow = [
        RoutedExperts.of_int32(array("i", ids_of(part)).tobytes(), part.start, rows=part.rows, k=part.k)
        for part in parts
        if part.rows
    ]
    read = [RoutedExperts.from_text(part.to_text(), part.start) for part in narrow]
    assert RoutedExperts.join(parts) == RoutedExperts.join(read) == whole
    assert ids_of(whole.padded()) == ids_of(whole) + [0] * whole.layers * whole.k


def test_the_text_is_nemo_rls() -> None:
    one = RoutedExperts.of_int32(array("i", [3, 1, 0, 300, 2, 1]).tobytes(), 4, rows=3, k=2)
    expected = base64.b64encode(array("h", [3, 1, 0, 300, 2, 1]).tobytes()).decode()
    assert one.to_text() == f"nrlre1:int16:3x1x2:{expected}"
    assert text_shape(one.to_text()) == (3, 1, 2)
    assert (one.start, one.end) == (4, 7)


def test_arrays_are_read_by_their_buffer() -> None:
    grid = memoryview(array("q", [5, 6, 7, 8])).cast("B").cast("q", (2, 1, 2))
    assert ids_of(RoutedExperts.of(grid, 9)) == [5, 6, 7, 8]
    assert RoutedExperts.of(grid, 9)[:4] == (9, 1, 2, 1)
    with pytest.raises(ValueError, match="not \\[rows, layers, k\\]"):
        RoutedExperts.of(array("q", [5, 6]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nrlre1:int8:1x1x1",
        "nrlre1:int64:1x1x1:AA==",
        "nrlre1:int8:1x1:AA==",
        "nrlre1:int8:2x1x1:AA==",
        "nrlre1:int8:1x0x1:",
        "nrlre1:int8:1x1x1:A",
    ],
)
def test_what_is_no_text_of_experts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="routed experts"):
        RoutedExperts.from_text(text)


def test_rows_that_do_not_meet_are_not_joined() -> None:
    one = RoutedExperts.of_int32(array("i", range(6)).tobytes(), 0, rows=3, k=2)
    for other in (one.part(1, 3), one._replace(start=4), one._replace(start=3, layers=2, k=1)):
        with pytest.raises(ValueError, match="behind"):
            RoutedExperts.join([one, other])
    with pytest.raises(ValueError, match="not of"):
        one.part(1, 4)


@pytest.mark.parametrize("shape", [(2, 0, 1), (2, 1, 0)])
def test_an_array_without_an_expert_of_a_token_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no expert of a token"):
        RoutedExperts.of(np.zeros(shape, np.int8))
