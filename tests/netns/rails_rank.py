"""A rank of test_rails.py: reduces MEGABYTES and says whether the sums were right."""

import ctypes
import os
from array import array

from library import floe, last_error, sum_in_place


def check(status: int) -> None:
    if status:
        raise SystemExit(last_error())


def main() -> None:
    context, world = ctypes.c_void_p(), ctypes.c_void_p()
    check(floe.floe_context_create(None, ctypes.byref(context)))
    check(floe.floe_comm_create_from_env(context, None, ctypes.byref(world)))
    count = int(os.environ["MEGABYTES"]) << 18
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    values = array("f", [rank + 1]) * count
    address = ctypes.c_void_p(values.buffer_info()[0])
    check(sum_in_place(world, address, count))
    assert values == array("f", [size * (size + 1) / 2]) * count
    check(floe.floe_comm_destroy(world))
    check(floe.floe_context_destroy(context))


main()
