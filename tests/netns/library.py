"""What ranks of these tests call of libfloe."""

import ctypes
import os
from pathlib import Path

FLOAT32, SUM = 0, 0
IN_PLACE = ctypes.c_void_p(-1)

build = Path(__file__).parents[2] / os.environ.get("BUILD_DIR", "build")
floe = ctypes.CDLL(str(build / "src" / "api" / "libfloe.so.0"))
floe.floe_last_error.restype = ctypes.c_char_p


def last_error() -> str:
    return floe.floe_last_error().decode()


def sum_in_place(comm: ctypes.c_void_p, address: ctypes.c_void_p, count: int) -> int:
    """The status of an all_reduce of `count` float32."""
    return floe.floe_all_reduce(comm, IN_PLACE, address, ctypes.c_uint64(count), FLOAT32, SUM, None)
