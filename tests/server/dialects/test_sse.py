"""Claims about server-sent events: read alike however the bytes come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.server.dialects import Event, EventReader, named_event, plain_event, sse
from paddock.server.dialects.failures import UnreadableError

TEXT = (
    b": a comment\n\nevent: one\ndata: 1\n\n"
    b"data:two\r\ndata:  lines\r\n\r\n"
    b"id: 7\rretry: 10\rdata: old\r\r"
    b"data: \xc3\xa4\n\n"
    b"event: none\n\ndata: torn"
)
EVENTS = [
    Event("one", b"1"),
    Event("", b"two\n lines"),
    Event("", b"old"),
    Event("", b"\xc3\xa4"),
]


@given(st.lists(st.integers(1, 12)))
def test_chunks_may_break_anywhere(sizes: list[int]) -> None:
    found: list[Event] = []
    reader, start = EventReader(), 0
    for size in [*sizes, len(TEXT)]:
        found += reader.feed(TEXT[start : start + size])
        start += size
    assert found == EVENTS


def test_what_is_written_is_read() -> None:
    raw = named_event({"type": "response.created", "text": "a\nb"}) + plain_event(b"[DONE]")
    assert list(EventReader().feed(raw)) == [
        Event("response.created", b'{"type":"response.created","text":"a\\nb"}'),
        Event("", b"[DONE]"),
    ]


def test_an_event_has_a_longest_length() -> None:
    reader = EventReader()
    with pytest.raises(UnreadableError):
        for _ in range(sse.MAX_EVENT_BYTES // (1 << 22) + 2):
            list(reader.feed(b"x" * (1 << 22)))
