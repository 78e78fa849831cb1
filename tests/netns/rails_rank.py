"""A rank of test_rails.py: reduces MEGABYTES and says whether the sums were right."""

import ctypes
import os
from array import array
from pathlib import Path

FLOAT32, SUM = 0, 0
IN_PLACE = ctypes.c_void_p(-1)

build = Path(__file__).parents[2] / os.environ.get("BUILD_DIR", "build")
floe = ctypes.CDLL(str(build / "src" / "api" / "libfloe.so.0"))
floe.floe_last_error.restype = ctypes.c_char_p


def check(status: int) -> None:
    if status:
        raise SystemExit(floe.floe_last_error().decode())


def main() -> None:
    context, world = ctypes.c_void_p(), ctypes.c_void_p()
    check(floe.floe_context_create(None, ctypes.byref(context)))
    check(floe.floe_comm_create_from_env(context, None, ctypes.byref(world)))
    count = int(os.environ["MEGABYTES"]) << 18
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    values = array("f", [rank + 1]) * count
    address = ctypes.c_void_p(values.buffer_info()[0])
    check(
        floe.floe_all_reduce(world, IN_PLACE, address, ctypes.c_uint64(count), FLOAT32, SUM, None)
    )
    assert values == array("f", [size * (size + 1) / 2]) * count
    check(floe.floe_comm_destroy(world))
    check(floe.floe_context_destroy(context))


main()
