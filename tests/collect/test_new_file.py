"""Claims about files that are there whole or not at all."""

from pathlib import Path

import pytest

from paddock.collect.new_file import new_file, refuse_same
from paddock.errors import ConfigError


@pytest.mark.parametrize("before", [None, b"of another day"])
def test_an_error_leaves_the_target_as_it_was(tmp_path: Path, before: bytes | None) -> None:
    target = tmp_path / "out.jsonl"
    if before is not None:
        target.write_bytes(before)

    def write() -> None:
        with new_file(target) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == (
        {} if before is None else {"out.jsonl": before}
    )


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path, tmp_path / "file" / "out.jsonl"):
        with pytest.raises(ConfigError, match=place.name), new_file(place):
            pass
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    with pytest.raises(ConfigError, match="link"):
        refuse_same(tmp_path / "file", link)
