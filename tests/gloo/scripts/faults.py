"""faults.py forever | start TIMEOUT: what ranks are told when something goes wrong.

forever: they reduce until something fails. start: rank 2 of 3 is killed when it has joined the
store and before it connects.
"""

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def forever() -> None:
    tensor = torch.ones(10_000)
    last = time.monotonic()
    try:
        for i in range(1_000_000_000):
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
            last = time.monotonic()
            if i == 10:
                print("started", flush=True)
    except RuntimeError as error:
        print(f"RuntimeError after {time.monotonic() - last:.2f} s: {error}", flush=True)


def start(timeout: timedelta) -> None:
    rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, 3, rank == 0)
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        dist.init_process_group("gloo", store=store, rank=rank, world_size=3, timeout=timeout)
        print("connected", flush=True)
    except RuntimeError as error:
        print(f"RuntimeError after {time.monotonic() - begin:.2f} s: {error}", flush=True)
    if rank == 0:
        store.wait(["told"])  # rank 0 has the store
    else:
        store.set("told", "")


def main() -> None:
    timeout = timedelta(seconds=float(sys.argv[2]))
    if sys.argv[1] == "start":
        start(timeout)
        return
    dist.init_process_group("gloo", timeout=timeout)
    forever()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
