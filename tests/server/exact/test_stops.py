"""Claims about stop texts: what a client reads ends before the first, however the text comes."""

from hypothesis import example, given
from hypothesis import strategies as st

from paddock.server.exact.server import StopTextFilter

TEXT = st.text("ab", max_size=12)


@given(st.lists(TEXT, max_size=6), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
@example(["ab", "b"], ["b", "abb"])
@example(["abb"], ["b", "abb"])
def test_what_is_told_is_the_text_before_the_stop_that_is_complete_first(pieces: list[str], stops: list[str]) -> None:
    stopper = StopTextFilter(stops)
    told = "".join(stopper.feed(piece, finished=False) for piece in pieces) + stopper.feed("", finished=True)
    whole = "".join(pieces)
    complete = (
        (end, -len(stop), stop) for end in range(1, len(whole) + 1) for stop in stops if whole[:end].endswith(stop)
    )
    end, size, found = min(complete, default=(len(whole), 0, None))
    assert (told, stopper.stop_text) == (whole[: end + size], found)


def test_only_what_may_begin_a_stop_is_held_back() -> None:
    stopper = StopTextFilter(["END"])
    assert [stopper.feed(piece, finished=False) for piece in ("a", "bE", "N", "x", "E", "ND", "more")] == [
        "a",
        "b",
        "",
        "ENx",
        "",
        "",
        "",
    ]
    assert stopper.stop_text == "END"


def test_stops_of_a_request_are_one_text_or_several() -> None:
    told = [StopTextFilter(stop).feed("xbya", finished=True) for stop in (None, "a", ["a", 1, "b", ""])]
    assert told == ["xbya", "xby", "x"]
