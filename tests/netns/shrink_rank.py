"""A rank of test_shrink.py: reduces until that fails, shrinks, reduces again, says how it went."""

import ctypes
import os

from library import floe, last_error, sum_in_place


class Info(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("local_rank", ctypes.c_uint32),
        ("local_size", ctypes.c_uint32),
        ("direct", ctypes.c_uint32),
        ("timeout_ms", ctypes.c_uint64),
    )


def check(status: int) -> None:
    if status:
        print(f"error: {last_error()}", flush=True)
        os._exit(0)


def reduce_ones(comm: ctypes.c_void_p) -> tuple[int, float]:
    value = ctypes.c_float(1)
    status = sum_in_place(comm, ctypes.byref(value), 1)
    return status, value.value


def main() -> None:
    context, world, fewer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(floe.floe_context_create(None, ctypes.byref(context)))
    check(floe.floe_comm_create_from_env(context, None, ctypes.byref(world)))
    check(reduce_ones(world)[0])
    print("reduced", flush=True)
    while reduce_ones(world)[0] == 0:
        pass
    check(floe.floe_comm_shrink(world, ctypes.byref(fewer)))
    status, total = reduce_ones(fewer)
    check(status)
    info = Info(ctypes.sizeof(Info))
    check(floe.floe_comm_info(fewer, ctypes.byref(info)))
    print(f"{info.rank} of {info.size}: {total:g}", flush=True)
    check(floe.floe_comm_destroy(fewer))
    check(floe.floe_comm_destroy(world))
    check(floe.floe_context_destroy(context))


main()
