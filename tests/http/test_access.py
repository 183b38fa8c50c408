"""Claims about where a client finds the token of a server: what is configured, else what that server has left."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from paddock.errors import ConfigError
from paddock.http import headers_for, token_for
from paddock.http.access import find_token, remove_token, store_token, stored_token

URL = "http://127.0.0.1:9"
pytestmark = pytest.mark.usefixtures("token_cache")


@pytest.fixture
def heard() -> Iterator[str]:
    """The URL of somebody who listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_a_token_file_comes_before_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PADDOCK_TOKEN", raising=False)
    assert find_token() is None
    monkeypatch.setenv("PADDOCK_TOKEN", "from-variable")
    assert find_token() == "from-variable"
    (tmp_path / "token").write_text("  from-file\n")
    assert find_token(tmp_path / "token") == "from-file"


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", "schlüssel".encode(), b"\xff\xfe", b"line\nline"])
def test_an_unusable_token_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        find_token(path)
    assert str(path) in caught.value.message
    assert "words" not in caught.value.message


def test_what_is_given_comes_first_then_the_variable_then_what_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (token_for(URL), headers_for(URL)) == (None, {})
    store_token(URL, "left")
    assert token_for(URL) == "left"
    monkeypatch.setenv("PADDOCK_TOKEN", "variable")
    assert token_for(URL) == "variable"
    assert headers_for(URL, "given") == {"authorization": "Bearer given"}


def test_what_is_left_is_for_this_user_alone_and_goes_with_the_server(token_cache: Path) -> None:
    path = store_token(URL, "first")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert path.is_relative_to(token_cache)
    assert path.read_text() == "Authorization: Bearer first\n"
    assert store_token(URL, "second") == path
    remove_token(URL, "first")
    assert stored_token(URL) == "second", "another server's by now"
    remove_token(URL, "second")
    remove_token(URL, "second")
    assert list(path.parent.iterdir()) == []


def test_a_token_is_sent_to_the_address_that_it_is_of_and_to_no_other(heard: str) -> None:
    port = heard.rpartition(":")[2]
    store_token(heard, "four")
    store_token(f"http://[::1]:{port}", "six")
    assert stored_token(f"{heard}/v1/responses") == "four"
    assert stored_token(f"http://[0::1]:{port}/") == "six"
    others = ("http://127.0.0.2", "http://localhost", "https://127.0.0.1", "http://192.0.2.1", "http://[::2]")
    for url in (*(f"{other}:{port}" for other in others), "http://127.0.0.1", "http://127.0.0.1:x", "file:///x", ""):
        assert stored_token(url) is None, url


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_no_token_is_left_where_others_may_look(token_cache: Path, mode: int) -> None:
    folder = store_token(URL, "first").parent
    folder.chmod(mode)
    with pytest.raises(
        ConfigError, match=r"can't be stored for them: .*not this user's alone.*serve.loopback_token: false"
    ):
        store_token(URL, "second")
    assert stored_token(URL) == "first"


def test_what_killed_servers_have_left_goes_when_the_next_one_starts(heard: str) -> None:
    kept = store_token(heard, "alive")
    gone = store_token(URL, "dead")
    half = gone.with_name(f".{gone.name}")
    half.touch()
    other = kept.with_name("notes-1.txt")
    other.touch()
    new = store_token("http://127.0.0.1:10", "new")
    assert sorted(kept.parent.iterdir()) == sorted([kept, other, new])
    assert not gone.exists() and not half.exists()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_reads_the_file_as_a_header() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        path = store_token(url, "secret")
        with subprocess.Popen(["curl", "-sS", "--noproxy", "*", "-H", f"@{path}", url], stdout=subprocess.DEVNULL):
            caller, _ = sock.accept()
            with caller:
                caller.settimeout(20)
                asked = caller.recv(65536)
                caller.sendall(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
    assert b"\r\nauthorization: bearer secret\r\n" in asked.lower()
