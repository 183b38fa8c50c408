"""Ports that another process binds later: free, different, and never given to other sockets meanwhile."""

import socket

import pytest

from paddock.ports import free_port, free_ports


def test_ports_are_different_and_can_be_bound() -> None:
    found = free_ports(20)
    listening = [socket.create_server(("127.0.0.1", port)) for port in found]
    assert len({one.getsockname()[1] for one in listening}) == 20
    for one in listening:
        one.close()


def test_no_socket_that_asks_for_any_port_gets_one_of_them() -> None:
    found = set(free_ports(200))
    others = [socket.create_server(("127.0.0.1", 0)) for _ in range(200)]
    assert min(one.getsockname()[1] for one in others) > max(found)
    for one in others:
        one.close()


def test_an_address_of_another_machine_is_an_error_that_names_it() -> None:
    with pytest.raises(OSError, match=r"at 192\.0\.2\.1"):
        free_port("192.0.2.1")
