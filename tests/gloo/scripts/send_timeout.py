"""Rank 0 sends what nobody receives, and prints what it is told; rank 1 receives late."""

from datetime import timedelta

import torch
import torch.distributed as dist


def attempt(what: str, work: dist.Work, timeout: timedelta) -> None:
    try:
        work.wait(timeout)
        print(f"{what}: nothing", flush=True)
    except RuntimeError as error:
        print(f"{what}: {error}", flush=True)


def main() -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=300))
    other = dist.new_group()
    dist.barrier()  # both groups are connected
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        work = dist.isend(torch.ones(3), 1, tag=5)
        attempt("unreceived", dist.isend(torch.ones(1), 1, other), timedelta(milliseconds=300))
        dist.isend(torch.ones(1), 1, tag=6)  # nobody waits for it, nor receives it
        store.set("timed out", "")
        attempt("received", work, timedelta(seconds=300))
        store.set("done", "")
    else:
        tensor = torch.zeros(3)
        store.wait(["timed out"])
        dist.recv(tensor, 0, tag=5)
        print(f"got {tensor.tolist()}", flush=True)
        store.wait(["done"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
