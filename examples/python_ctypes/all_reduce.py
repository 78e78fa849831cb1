"""Adds one number per rank on all ranks, and shows how a wrong call is refused. Once per rank:

    torchrun --nproc_per_node 2 examples/python_ctypes/all_reduce.py

libfloe.so.0 must be where the dynamic linker looks, or in LD_LIBRARY_PATH.
"""

from ctypes import byref, c_int32, c_void_p

import floe


def add_up(comm):
    info = floe.floe_comm_info_t()
    floe.floe_comm_info(comm, byref(info))
    total = c_int32(info.rank + 1)
    arguments = comm, floe.FLOE_IN_PLACE, byref(total), 1, floe.FLOE_INT32
    try:
        floe.floe_all_reduce(*arguments, floe.FLOE_AVG, None)
    except floe.FloeError as error:  # nothing has been sent: the communicator stays usable
        print(f"rank {info.rank} of {info.size}: refused with {error}")

    floe.floe_all_reduce(*arguments, floe.FLOE_SUM, None)
    print(f"rank {info.rank} of {info.size}: 1 + ... + {info.size} = {total.value}")


def main():
    config = floe.floe_comm_config_t(timeout_ms=10000)  # of the creation and of each operation
    context, comm = c_void_p(), c_void_p()
    floe.floe_context_create(None, byref(context))
    floe.floe_comm_create_from_env(context, byref(config), byref(comm))
    add_up(comm)
    floe.floe_comm_destroy(comm)
    floe.floe_context_destroy(context)


if __name__ == "__main__":
    main()
