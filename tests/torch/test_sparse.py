"""all_reduce of sparse tensors, as embeddings' gradients are: beside dense sums, and Gloo."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from launch import run_ranks


def part(
    rank: int, dtype: torch.dtype, rows: int = 16, columns: tuple[int, ...] = (3,)
) -> torch.Tensor:
    """Rank 0 has no element; others share some, have some of their own, and one of them twice."""
    indices = torch.tensor([[0, rank, 2 * rank, rank]])[:, : 0 if rank == 0 else 4]
    values = torch.arange(1, 1 + indices.size(1)).reshape(-1, *[1] * len(columns)) * (rank + 1)
    values = values.expand(indices.size(1), *columns).to(dtype)
    return torch.sparse_coo_tensor(indices, values, (rows, *columns))


def check_sums(backend: str) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dtypes = [torch.float32, torch.float64, torch.int64]
    if backend == "floe":
        dtypes += [torch.bfloat16, torch.float16, torch.int16]
    for dtype in dtypes:
        for columns in ((), (3,), (2, 5)):
            expected = sum(part(r, dtype, columns=columns).to_dense() for r in range(ranks))
            mine = part(rank, dtype, columns=columns)
            dist.all_reduce(mine)
            assert torch.equal(mine.to_dense(), expected), (dtype, columns)
            mine = part(rank, dtype, columns=columns)
            (result,) = dist.all_reduce(mine, async_op=True).get_future().wait()
            assert torch.equal(result.to_dense(), expected), (dtype, columns)


@pytest.mark.parametrize("backend", ["floe", "gloo"])
def test_sums(backend: str) -> None:
    run_ranks(3, check_sums, backend, backend=backend)


def check_more() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = part(rank, torch.float32)
    dist.all_reduce(mine, dist.ReduceOp.AVG)
    expected = sum(part(r, torch.float32).to_dense() for r in range(ranks)) / ranks
    assert torch.equal(mine.to_dense(), expected)
    # 257 has no bfloat16: the sum of all is rounded once, 256 + 7 * 1 to 264.
    value = torch.tensor([256.0 if rank == 0 else 7.0 / (ranks - 1)]).bfloat16()
    mine = torch.sparse_coo_tensor(torch.tensor([[4]]), value, (10,))
    dist.all_reduce(mine)
    assert mine.to_dense()[4] == 264.0
    # Nobody has any element.
    mine = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64), torch.empty(0), (10,))
    dist.all_reduce(mine)
    assert mine._nnz() == 0
    # Others are under way: the order is kept.
    dense, mine = torch.ones(1000), part(rank, torch.float32)
    works = [dist.all_reduce(t, async_op=True) for t in (dense, mine, dense)]
    for work in works:
        work.wait()
    assert dense.unique().tolist() == [ranks**2]


def test_averages_rounding_and_order() -> None:
    run_ranks(8, check_more)


def check_callback() -> None:
    def differentiates(_: torch.futures.Future) -> bool:
        weight = torch.ones(2, requires_grad=True)
        return (2 * weight).requires_grad

    for tensor in (torch.ones(2), part(dist.get_rank(), torch.float32)):
        work = dist.all_reduce(tensor, async_op=True)
        assert work.get_future().then(differentiates).wait(), tensor.layout


def test_callbacks_may_differentiate() -> None:
    run_ranks(2, check_callback)


def check_refusals() -> None:
    rank = dist.get_rank()
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        with pytest.raises(RuntimeError, match="SUM and AVG only"):
            dist.all_reduce(part(rank, torch.float32), op)
    with pytest.raises(RuntimeError, match=r"no ReduceOp.AVG of Long"):
        dist.all_reduce(part(rank, torch.int64), dist.ReduceOp.AVG)
    with pytest.raises(RuntimeError, match="have different types, sizes"):
        dist.all_reduce(part(rank, torch.float32, rows=16 + rank))
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0, 2.0]


def test_what_is_no_sparse_sum_is_refused_on_all_ranks() -> None:
    run_ranks(2, check_refusals)


def train_embedding() -> list[float]:
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = DistributedDataParallel(
        nn.Sequential(nn.Embedding(50, 4, sparse=True), nn.Flatten(), nn.Linear(8, 1))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        generator = torch.Generator().manual_seed(10 * step + rank)
        optimizer.zero_grad()
        model(torch.randint(50, (6, 2), generator=generator)).square().mean().backward()
        optimizer.step()
    return [value for p in model.parameters() for value in p.detach().flatten().tolist()]


def test_embeddings_train_as_over_gloo() -> None:
    floe, gloo = (run_ranks(2, train_embedding, backend=name) for name in ("floe", "gloo"))
    assert floe[0] == floe[1]
    assert floe[0] == pytest.approx(gloo[0], rel=1e-5)
