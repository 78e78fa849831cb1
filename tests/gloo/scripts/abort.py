"""abort.py abort | destroy: rank 0 leaves the group in that way while rank 1 waits in it.

With abort, rank 0 waits too, from another thread. Prints what each wait ends with.
"""

import gc
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d


def attempt(work: dist.Work) -> None:
    begin = time.monotonic()
    try:
        work.wait()
        print("nothing", flush=True)
    except RuntimeError as error:
        print(f"RuntimeError after {time.monotonic() - begin:.2f} s: {error}", flush=True)


def main() -> None:
    abort = sys.argv[1] == "abort"
    dist.init_process_group("gloo", timeout=timedelta(seconds=8 if abort else 300))
    rank = dist.get_rank()
    store = distributed_c10d._get_default_store()
    dist.barrier()
    if rank == 1:
        work = dist.irecv(torch.ones(3), 0)
        store.set("waits", "")
        attempt(work)
    elif abort:
        work = dist.irecv(torch.ones(3), 1)
        waiting = threading.Thread(target=attempt, args=(work,))
        waiting.start()
        store.wait(["waits"])
        distributed_c10d._abort_process_group()
        waiting.join()
    else:
        store.wait(["waits"])
        dist.destroy_process_group()
        gc.collect()
    if rank == 0:
        store.wait(["done"])  # rank 0 has the store
    else:
        store.set("done", "")
    print("done", flush=True)


if __name__ == "__main__":
    main()
