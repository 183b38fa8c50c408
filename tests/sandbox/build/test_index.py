"""The simple API as indexes speak it, on loopback."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import InfraError, RowError
from paddock.sandbox.images.build.index import Index, PipConfig, _read, normalize, split_pin

Make = Callable[[str, dict[str, str]], bytes]


@pytest.fixture
def client(index: Any, tmp_path: Path) -> Index:
    return Index(PipConfig([index.url], None), tmp_path)


async def test_a_source_distribution_is_found_checked_and_kept(client: Index, index: Any, make_sdist: Make) -> None:
    data = make_sdist("Tiny.Pkg-1.0", {"a.py": "1"})
    digest = index.put("tiny-pkg", "Tiny.Pkg-1.0.tar.gz", data)
    path = await client.sdist("tiny_pkg==1.0", [digest])
    assert path.read_bytes() == data
    for file in (index.folder / "tiny-pkg").iterdir():
        file.unlink()
    assert await client.sdist("tiny_pkg==1.0", [digest]) == path, "it is not asked for twice"


async def test_a_file_that_is_not_what_the_row_or_the_index_says_is_refused(
    client: Index, index: Any, make_sdist: Make
) -> None:
    index.put("tiny", "tiny-1.0.tar.gz", make_sdist("tiny-1.0", {}), digest="0" * 64)
    for said in (["0" * 64], ["1" * 64, "2" * 64], []):
        with pytest.raises(RowError, match="has sha256") as caught:
            await client.sdist("tiny==1.0", said)
        assert caught.value.kind == "sdist_digest"


async def test_json_pages_are_read_as_html_ones(index: Any, tmp_path: Path, make_sdist: Make) -> None:
    data = make_sdist("tiny-1.0", {"a.py": "1"})
    (tmp_path / "tiny-1.0.tar.gz").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    file = {"filename": "tiny-1.0.tar.gz", "url": f"{tmp_path.as_uri()}/tiny-1.0.tar.gz", "hashes": {"sha256": digest}}
    page = index.folder / "tiny" / "index.json"
    page.parent.mkdir()
    page.write_text(json.dumps({"files": [file]}))
    client = Index(PipConfig([index.url], None), tmp_path)
    # The server tells a page's type by its name; an index tells it by a header.
    found = await client._get(f"{index.url}/tiny/index.json")
    assert found is not None and "json" in found.kind
    assert [entry.sha256 for entry in _read(found)] == [digest]


async def test_a_second_index_serves_what_the_first_lacks(index: Any, tmp_path: Path, make_sdist: Make) -> None:
    digest = index.put("tiny", "tiny-1.0.tar.gz", make_sdist("tiny-1.0", {}))
    other = tmp_path / "empty"
    other.mkdir()
    client = Index(PipConfig([other.as_uri(), index.url], None), tmp_path)
    assert (await client.sdist("tiny==1.0", [digest])).name == "tiny-1.0.tar.gz"


async def test_what_no_index_has_is_the_rows_fault_and_a_silent_index_is_not(
    client: Index, index: Any, tmp_path: Path, make_wheel: Any
) -> None:
    with pytest.raises(RowError, match="has a project 'gone'"):
        await client.sdist("gone==1.0", ["0" * 64])
    index.put("tiny", "tiny-1.0-py3-none-any.whl", make_wheel("tiny", "1.0", {}))
    with pytest.raises(RowError, match="source distribution"):
        await client.sdist("tiny==1.0", ["0" * 64])
    silent = Index(PipConfig(["http://127.0.0.1:9"], None), tmp_path)
    with pytest.raises(InfraError) as caught:
        await silent.sdist("tiny==1.0", ["0" * 64])
    assert caught.value.retryable


async def test_pip_is_asked_where_packages_are(index: Any) -> None:
    assert (await PipConfig.read()).indexes == [index.url]


@pytest.mark.parametrize(
    "pin", ["name", "name>=1", "==1", "name==", "-r file==1", "name==-1", "--find-links=x==1", "name==1.*"]
)
def test_a_pin_that_is_not_exact_is_refused(pin: str) -> None:
    with pytest.raises(RowError, match="exact pin"):
        split_pin(pin)


def test_names_compare_as_indexes_do() -> None:
    assert normalize("Zope.Interface__x") == "zope-interface-x"
    assert split_pin("Name[extra]==1.0 ; python_version > '3'") == ("Name", "1.0")
