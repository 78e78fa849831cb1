"""A host without ranks: does to each address given what strangers do, some seconds in all."""

import contextlib
import socket
import struct
import sys
import time

HOLD_SECONDS = 1.0
Address = tuple[str, int]


def connection(address: Address) -> socket.socket:
    return socket.create_connection(address, timeout=1)


def scan(address: Address) -> None:
    for _ in range(50):
        connection(address).close()


def reset(address: Address) -> None:
    for _ in range(50):
        with connection(address) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def garbage(address: Address) -> None:
    for filling in (b"\0", b"\xff", b"GET / HTTP/1.1\r\nHost: floe\r\n\r\n"):
        with connection(address) as one:
            one.sendall(filling * ((1 << 20) // len(filling)))


def slowloris(address: Address) -> None:
    with connection(address) as one:
        for _ in range(5):
            one.sendall(b"f")
            time.sleep(HOLD_SECONDS / 5)


def crowd(address: Address) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(connection(address))
        time.sleep(HOLD_SECONDS)


def main() -> None:
    for argument in sys.argv[1:]:
        host, port = argument.rsplit(":", 1)
        for attack in (scan, reset, garbage, slowloris, crowd):
            with contextlib.suppress(OSError):  # refused, reset or ignored: as the other side likes
                attack((host, int(port)))


main()
