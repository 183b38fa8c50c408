"""Claims about the `serve` block, and the addresses that servers listen at."""

import socket
from contextlib import closing

import pytest

from paddock.config import load
from paddock.errors import ConfigError
from paddock.server.settings import ServeSettings, serve_settings
from paddock.server.sockets import Address, bind, is_loopback, require_token


def test_a_config_without_a_serve_block_has_the_defaults() -> None:
    assert serve_settings(load([], extra={})) == ServeSettings()
    assert serve_settings(load([], extra={"serve": {"max_restarts": 0}})).max_restarts == 0


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"max_restarts": -1}, "`serve.max_restarts`"),
        ({"stop_timeout_s": 0}, "`serve.stop_timeout_s`"),
        ({"restart_wait": 1}, "nearest: `restart_wait_s`"),
    ],
)
def test_a_wrong_serve_block_names_its_key(block: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        serve_settings(load([], extra={"serve": block}))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", "", "127.0.0.1.example.org")],
)
def test_only_loopback_needs_no_token(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    require_token("s", host, "token")
    if not loopback:
        with pytest.raises(ConfigError, match="needs a token"):
            require_token("s", host, None)


def test_a_port_is_held_from_the_moment_it_is_bound() -> None:
    first = bind("a", Address("127.0.0.1", 0))
    with closing(first.sock):
        port = first.sock.getsockname()[1]
        assert first.url == f"http://127.0.0.1:{port}"
        with pytest.raises(ConfigError, match=f"b: can't listen on 127.0.0.1:{port}: Address already in use"):
            bind("b", Address("127.0.0.1", port))
    with closing(bind("b", Address("127.0.0.1", port)).sock) as again:
        assert again.getsockname()[1] == port


def test_every_interface_is_reached_through_loopback() -> None:
    with closing(bind("a", Address("0.0.0.0", 0)).sock) as sock:
        port = sock.getsockname()[1]
        with closing(socket.create_connection(("127.0.0.1", port), timeout=60)):
            pass
    bound = bind("a", Address("0.0.0.0", 0))
    with closing(bound.sock):
        assert bound.url.startswith("http://127.0.0.1:")
