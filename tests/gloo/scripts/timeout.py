"""Rank 0 waits for messages that nobody sends; every rank prints what it is told."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist


def attempt(what: str, group: dist.ProcessGroup | None = None) -> None:
    try:
        if what == "recv":
            dist.irecv(torch.empty(1), 1, group).wait(timedelta(milliseconds=300))
        else:
            dist.barrier(group, timeout=timedelta(milliseconds=400))
        print(f"{what}: nothing", flush=True)
    except RuntimeError as error:
        print(f"{what}: {error}", flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    other = dist.new_group()
    dist.barrier()  # both groups are connected
    if dist.get_rank() == 0:
        attempt("barrier", other)
        attempt("recv")
    else:
        time.sleep(2)
        attempt("barrier")  # the timeout on rank 0 has ended the group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
