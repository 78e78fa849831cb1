"""Reduces until something fails, and prints what failed."""

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    tensor = torch.ones(10_000)
    try:
        for i in range(1_000_000_000):
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
            if i == 10:
                print("started", flush=True)
    except RuntimeError as error:
        print(f"RuntimeError: {error}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
