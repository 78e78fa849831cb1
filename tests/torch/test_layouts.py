"""Tensors with any strides: every collective means their elements, not the memory between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from launch import run_ranks
from test_collectives import assert_same


def strided(values: torch.Tensor) -> torch.Tensor:
    """Every second column of a matrix."""
    return (
        torch.full((values.size(0), 2 * values.size(1)), -7).to(values.dtype)[:, ::2].copy_(values)
    )


def transposed(values: torch.Tensor) -> torch.Tensor:
    return torch.empty(values.size(1), values.size(0), dtype=values.dtype).t().copy_(values)


def channels_last(values: torch.Tensor) -> torch.Tensor:
    image = values.reshape(1, 2, -1, values.size(1))
    return image.contiguous(memory_format=torch.channels_last)


def plain(values: torch.Tensor) -> torch.Tensor:
    return values.clone()


LAYOUTS = {f.__name__: f for f in (strided, transposed, channels_last, plain)}
Layout = Callable[[torch.Tensor], torch.Tensor]


def values(number: int, dtype: torch.dtype) -> torch.Tensor:
    return (torch.arange(24).reshape(4, 6) % 7 + number).to(dtype)


def check_layout(name: str, dtype: torch.dtype) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    # The next rank has another layout: its elements meet the same ones all the same.
    names = list(LAYOUTS) if name == "mixed" else [name]
    layout = LAYOUTS[names[rank % len(names)]]
    shape = layout(values(0, dtype)).shape
    all_ = [values(r, dtype).reshape(shape) for r in range(ranks)]
    total = torch.stack([part.to(torch.int64) for part in all_]).sum(0).to(dtype)

    def mine() -> torch.Tensor:
        tensor = layout(values(rank, dtype))
        assert name in ("plain", "mixed") or not tensor.is_contiguous()
        return tensor.reshape(shape) if tensor.shape != shape else tensor

    def nothing() -> torch.Tensor:
        return layout(values(99, dtype))

    tensor = mine()
    dist.all_reduce(tensor)
    assert_same(tensor, total, "all_reduce")
    tensor = mine()
    dist.all_reduce(tensor, async_op=True).get_future().wait()
    assert_same(tensor, total, "all_reduce, future")
    tensors = [mine(), mine()]
    dist.all_reduce_coalesced(tensors)
    for tensor in tensors:
        assert_same(tensor, total, "all_reduce_coalesced")
    tensor = mine()
    dist.reduce(tensor, 1)
    assert_same(tensor, total if rank == 1 else all_[rank], "reduce")
    tensor = mine()
    dist.broadcast(tensor, 1)
    assert_same(tensor, all_[1], "broadcast")

    outputs = [nothing() for _ in range(ranks)]
    dist.all_gather(outputs, mine())
    for output, part in zip(outputs, all_, strict=True):
        assert_same(output, part, "all_gather")
    outputs = [nothing() for _ in range(ranks)]
    dist.gather(mine(), outputs if rank == 0 else None, dst=0)
    if rank == 0:
        for output, part in zip(outputs, all_, strict=True):
            assert_same(output, part, "gather")
    output = nothing()
    parts = [layout(values(r, dtype)) for r in range(ranks)]
    dist.scatter(output, parts if rank == 0 else None, src=0)
    assert_same(output, all_[rank], "scatter")
    output = nothing()
    dist.reduce_scatter(output, [mine() for _ in range(ranks)])
    assert_same(output, total, "reduce_scatter")

    if rank < 2:
        received = nothing()
        peer = 1 - rank
        request = dist.irecv(received, peer)
        dist.send(mine(), peer)
        request.wait()
        assert_same(received, all_[peer], "send, recv")
    received = nothing()
    request = dist.irecv(received)
    dist.send(mine(), (rank + 1) % ranks)
    request.wait()
    assert_same(received, all_[rank - 1], "recv from any")


@pytest.mark.parametrize("name", [*LAYOUTS, "mixed"])
def test_every_layout_in_every_collective(name: str) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int16):
        run_ranks(2, check_layout, name, dtype)


def check_single_tensors() -> None:
    """One tensor with the blocks of all ranks, in rows of which only some columns are its own."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = strided(torch.full((2, 3), float(rank)))
    rows = strided(torch.zeros(2 * ranks, 3))
    dist.all_gather_into_tensor(rows, mine)
    assert rows[:, 1].tolist() == [float(r) for r in range(ranks) for _ in range(2)]
    dist.reduce_scatter_tensor(mine, rows)
    assert mine.tolist() == [[float(ranks * rank)] * 3] * 2
    output = strided(torch.zeros(2 * ranks, 3))
    rows = strided(torch.full((2 * ranks, 3), float(rank)))
    dist.all_to_all_single(output, rows)
    assert output[:, 2].tolist() == [float(r) for r in range(ranks) for _ in range(2)]
    # What lies between the elements is not touched.
    for tensor in (mine, output):
        whole = tensor.as_strided((tensor.size(0), 6), (6, 1))
        assert torch.all(whole[:, 1::2] == -7)


def test_single_tensors_with_gaps() -> None:
    run_ranks(3, check_single_tensors)
