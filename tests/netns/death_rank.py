"""A rank of test_deaths.py: reduces until that fails, and says when and why."""

import ctypes
import os
import time

from library import floe, last_error, sum_in_place


def check(status: int) -> None:
    if status:
        print(f"{time.time():.3f} {last_error()}", flush=True)
        time.sleep(float(os.environ.get("LINGER", "0")))  # nobody learns of this one's end instead
        os._exit(0)


def main() -> None:
    context, world = ctypes.c_void_p(), ctypes.c_void_p()
    check(floe.floe_context_create(None, ctypes.byref(context)))
    check(floe.floe_comm_create_from_env(context, None, ctypes.byref(world)))
    value = ctypes.c_float(1)
    turns = 0
    end = time.time() + float(os.environ.get("SECONDS", "60"))
    longest = 0.0
    while True:
        start = time.time()
        # Rank 0's clock decides for all.
        value.value = 1.0 if os.environ["RANK"] == "0" and start > end else 0.0
        check(sum_in_place(world, ctypes.byref(value), 1))
        longest = max(longest, time.time() - start)
        turns += 1
        if turns == 1:
            print("reduced", flush=True)
        if value.value:
            break
    print(f"{time.time():.3f} longest {longest:.3f}", flush=True)
    check(floe.floe_comm_destroy(world))
    check(floe.floe_context_destroy(context))


main()
