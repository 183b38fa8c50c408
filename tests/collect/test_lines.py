"""Claims about the writer: order, what `put` promises, and a disk that refuses."""

import asyncio
from pathlib import Path

import pytest

from paddock.collect.lines import JournalWriter, Part


async def test_what_put_has_promised_is_in_the_file(tmp_path: Path) -> None:
    writer = JournalWriter({"a": tmp_path / "a"}, durable=frozenset({"a"}))
    await writer.put(Part("a", b"one\n"))
    assert (tmp_path / "a").read_bytes() == b"one\n"
    await writer.close()


async def test_parts_go_in_the_order_in_which_they_were_put(tmp_path: Path) -> None:
    writer = JournalWriter({"a": tmp_path / "a", "b": tmp_path / "b"}, durable=frozenset({"a"}))
    ends = []
    puts = []
    for number in range(2000):
        ends.append(writer.end_of("a"))
        puts.append(writer.put(Part("a", b"%d\n" % number), Part("b", b".")))
    await asyncio.gather(*puts)
    await writer.close()
    content = (tmp_path / "a").read_bytes()
    assert content == b"".join(b"%d\n" % number for number in range(2000))
    assert all(content[end:].startswith(b"%d\n" % number) for number, end in enumerate(ends))
    assert (tmp_path / "b").read_bytes() == b"." * 2000


async def test_closing_writes_what_nobody_waited_for(tmp_path: Path) -> None:
    writer = JournalWriter({"a": tmp_path / "a"}, durable=frozenset())
    for _ in range(700):
        writer.post(Part("a", b"x"))
    writer.put(Part("a", b"y")).cancel()
    await writer.close()
    assert (tmp_path / "a").read_bytes() == b"x" * 700 + b"y"


async def test_a_file_is_continued_where_it_ended(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before\n")
    writer = JournalWriter({"a": tmp_path / "a"}, durable=frozenset())
    assert writer.end_of("a") == 7
    await writer.put(Part("a", b"after\n"))
    await writer.close()
    assert (tmp_path / "a").read_bytes() == b"before\nafter\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full")
async def test_a_disk_that_refuses_says_so_to_this_put_and_all_later_ones(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/dev/full")
    writer = JournalWriter({"a": tmp_path / "a", "b": tmp_path / "b"}, durable=frozenset({"a"}))
    with pytest.raises(OSError, match="No space left"):
        await writer.put(Part("a", b"one\n"))
    with pytest.raises(OSError, match="No space left"):
        await writer.put(Part("b", b"two\n"))
    await writer.close()
