"""Claims about stop texts: what a client reads ends before the first, however the text comes."""

from hypothesis import given
from hypothesis import strategies as st

from paddock.server.exact.stopping import Stopper, stop_texts

TEXT = st.text("ab", max_size=12)


@given(st.lists(TEXT, max_size=6), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_what_is_told_is_the_text_before_the_first_stop(pieces: list[str], stops: list[str]) -> None:
    stopper = Stopper(stops)
    told = "".join(stopper.feed(piece, finished=False) for piece in pieces) + stopper.feed("", finished=True)
    whole = "".join(pieces)
    ends = [whole.find(stop) for stop in stops if stop in whole]
    assert told == (whole[: min(ends)] if ends else whole)
    assert (stopper.found is not None) == bool(ends)


def test_only_what_may_begin_a_stop_is_held_back() -> None:
    stopper = Stopper(["END"])
    assert [stopper.feed(piece, finished=False) for piece in ("a", "bE", "N", "x", "E", "ND", "more")] == [
        "a",
        "b",
        "",
        "ENx",
        "",
        "",
        "",
    ]
    assert stopper.found == "END"


def test_stops_of_a_request_are_one_text_or_several() -> None:
    assert stop_texts(None) == []
    assert stop_texts("a") == ["a"]
    assert stop_texts(["a", 1, "b"]) == ["a", "b"]
