"""A rank of test_gloo.py: collectives of PyTorch's Gloo, again and again, each result checked."""

import torch
import torch.distributed as dist

MIB = 1 << 18  # elements of float32
CALLS = {2: 400, MIB: 100, 25 * MIB: 60}  # by elements


def check(what: str, call: int, result: torch.Tensor, expected: torch.Tensor) -> None:
    wrong = (result != expected).nonzero().flatten()
    assert len(wrong) == 0, (
        f"{what}, call {call}: {len(wrong)} of {len(result)} elements are wrong, the first at"
        f" {wrong[0]}: {result[wrong[0]]}, not {expected[wrong[0]]}"
    )


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for elements, calls in CALLS.items():
        data = torch.arange(elements, dtype=torch.float32) % 1021
        for call in range(calls):
            result = (data + call) * (rank + 1)
            dist.all_reduce(result)
            check("all_reduce", call, result, (data + call) * (ranks * (ranks + 1) // 2))
        for call in range(calls // 10):
            root = call % ranks
            result = data + root + call if rank == root else torch.zeros(elements)
            dist.broadcast(result, root)
            check("broadcast", call, result, data + root + call)
            blocks = [torch.zeros(elements) for _ in range(ranks)]
            dist.all_gather(blocks, data * (rank + 1) + call)
            for source, block in enumerate(blocks):
                check(f"all_gather from {source}", call, block, data * (source + 1) + call)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
