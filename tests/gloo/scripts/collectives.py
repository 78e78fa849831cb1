"""Every operation of the gloo backend; saves what each left in memory, to compare transports."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
]
MODERN = int(torch.__version__.split(".")[0]) > 1  # before, the gloo backend could do less
if MODERN:
    TYPES.append(torch.bfloat16)
OPS = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}
SIZES = [1, 1001, 300_007]

Results = dict[str, Tensor]


def data(count: int, rank: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * count + rank)
    if dtype.is_floating_point:
        return torch.randn(count, generator=generator).to(dtype)
    return torch.randint(0, 50, (count,), generator=generator).to(dtype)


def reductions(rank: int, size: int, results: Results) -> None:
    for dtype in TYPES:
        for count in SIZES:
            for name, op in OPS.items() if count == SIZES[1] else [("sum", OPS["sum"])]:
                tensor = data(count, rank, dtype)
                dist.all_reduce(tensor, op)
                results[f"all_reduce {name} {dtype} {count}"] = tensor
    for root in range(size):
        tensor = data(1001, rank)
        dist.reduce(tensor, root)
        results[f"reduce to {root}"] = tensor if rank == root else torch.empty(0)
    for count in SIZES if MODERN else []:
        output = torch.empty(count)
        dist.reduce_scatter_tensor(output, data(count * size, rank))
        results[f"reduce_scatter_tensor {count}"] = output
    indices = torch.tensor([[rank, size]])
    tensor = torch.sparse_coo_tensor(indices, data(2, rank), (size + 1,))
    dist.all_reduce(tensor)
    results["all_reduce sparse"] = tensor.to_dense()


def movements(rank: int, size: int, results: Results) -> None:
    for root in range(size):
        for count in SIZES:
            tensor = data(count, rank)
            dist.broadcast(tensor, root)
            results[f"broadcast from {root} {count}"] = tensor
        gathered = [torch.empty(1001) for _ in range(size)] if rank == root else None
        dist.gather(data(1001, rank), gathered, root)
        results[f"gather to {root}"] = torch.cat(gathered) if gathered else torch.empty(0)
        output = torch.empty(1001)
        parts = [data(1001, 100 * rank + i) for i in range(size)] if rank == root else None
        dist.scatter(output, parts, root)
        results[f"scatter from {root}"] = output
    for count in SIZES:
        outputs = [torch.empty(count) for _ in range(size)]
        dist.all_gather(outputs, data(count, rank))
        results[f"all_gather {count}"] = torch.cat(outputs)
    for count in SIZES if MODERN else []:
        output = torch.empty(count * size)
        dist.all_gather_into_tensor(output, data(count, rank))
        results[f"all_gather_into_tensor {count}"] = output
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    results["all_gather_object"] = torch.tensor([o["rank"] for o in objects])


def all_to_alls(rank: int, size: int, results: Results) -> None:
    for count in SIZES:
        output = torch.empty(count * size)
        dist.all_to_all_single(output, data(count * size, rank))
        results[f"all_to_all_single {count}"] = output
    # Rank a sends a + b elements to rank b: some send none.
    splits = [rank + peer for peer in range(size)]
    output = torch.empty(sum(splits))
    dist.all_to_all_single(output, data(sum(splits), rank), splits, splits)
    results["all_to_all_single uneven"] = output
    if MODERN:
        outputs = [torch.empty(1001) for _ in range(size)]
        dist.all_to_all(outputs, [data(1001, 100 * rank + peer) for peer in range(size)])
        results["all_to_all"] = torch.cat(outputs)


def point_to_point(rank: int, size: int, results: Results) -> None:
    following, previous = (rank + 1) % size, (rank - 1) % size
    for count in SIZES:
        tensor = torch.empty(count)
        send = dist.isend(data(count, rank), following, tag=7)
        dist.recv(tensor, previous, tag=7)
        send.wait()
        results[f"send around {count}"] = tensor
    # In the opposite order of tags, and while an all_reduce is between.
    tensors = [torch.empty(5), torch.empty(6)]
    receives = [dist.irecv(tensors[i], previous, tag=i) for i in (1, 0)]
    reduced = data(1001, rank)
    dist.all_reduce(reduced)
    sends = [dist.isend(data(5 + i, rank), following, tag=i) for i in (0, 1)]
    for work in receives + sends:
        work.wait()
    results["tags"] = torch.cat(tensors)
    if rank == 0:
        sums, sources = torch.zeros(1001), []
        for _ in range(size - 1):
            tensor = torch.empty(1001)
            source = dist.recv(tensor, tag=9)
            assert torch.equal(tensor, data(1001, source)), source
            sums += tensor
            sources.append(source)
        results["recv from any"] = torch.tensor(sorted(sources))
    else:
        dist.send(data(1001, rank), 0, tag=9)
    tensor = torch.empty(300_007)
    operations = [
        dist.P2POp(dist.irecv, tensor, previous),
        dist.P2POp(dist.isend, data(300_007, rank), following),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    results["batch_isend_irecv"] = tensor


def groups_and_async(rank: int, size: int, results: Results) -> None:
    dist.barrier()
    dist.monitored_barrier()
    for members in ([0, 1], list(range(size - 1, -1, -1))):
        group = dist.new_group(members)
        if rank in members:
            tensor = data(1001, rank)
            dist.all_reduce(tensor, group=group)
            results[f"all_reduce on {members}"] = tensor
        dist.destroy_process_group(group)
    tensors = [data(20_000, rank + i) for i in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    results["async all_reduce"] = torch.cat(tensors)


def ddp(rank: int, results: Results) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
    options = {"fused": True} if MODERN else {}
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-2, **options)
    for step in range(5):
        inputs = data(32 * 64, 10 * step + rank).reshape(32, 64)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = parallel(inputs).square().mean()
        loss.backward()
        optimizer.step()
    for name, parameter in model.named_parameters():
        results[f"ddp {name}"] = parameter.detach()


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    results: Results = {}
    reductions(rank, size, results)
    movements(rank, size, results)
    all_to_alls(rank, size, results)
    point_to_point(rank, size, results)
    groups_and_async(rank, size, results)
    ddp(rank, results)
    torch.save(results, Path(sys.argv[1]) / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
