"""The sandbox's own network: loopback, and routes on which packets vanish.

`blackhole` makes connections to private addresses (10.0.0.0/8, 192.0.2.0/24) time out as they do behind a firewall;
without it the kernel says at once that they are unreachable. Needs CAP_NET_ADMIN over the network namespace.
"""

import ctypes
import fcntl
import socket
import struct

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCADDRT = 0x8913, 0x8914, 0x890B
_IFF_UP, _RTF_UP = 1, 1
VANISHING = (("10.0.0.0", "255.0.0.0"), ("192.0.2.0", "255.255.255.0"))


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack_from("H", fcntl.ioctl(control, _SIOCGIFFLAGS, request), 16)[0]
        if not flags & _IFF_UP:
            fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def blackhole() -> None:
    """Routes over loopback: the packets come back to an address that nobody has, and are dropped."""
    for address, mask in VANISHING:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            # struct rtentry of linux/route.h on a 64-bit machine; the device's name is passed by address.
            name = ctypes.create_string_buffer(b"lo")
            gateway = _address("0.0.0.0")  # noqa: S104 - none
            head = (0, _address(address), gateway, _address(mask), _RTF_UP, 0, 0, 0, 0)
            entry = struct.pack("L16s16s16sHhLPhPLLH6x", *head, ctypes.addressof(name), 0, 0, 0)
            fcntl.ioctl(control, _SIOCADDRT, entry)


def _address(text: str) -> bytes:
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
