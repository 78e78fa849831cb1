"""Operations that are one work together: PyTorch's coalescing manager and batches of messages."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from launch import run_ranks

CPU = torch.device("cpu")


def check_manager(device: torch.device | None) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = sum(range(ranks))
    for asynchronous in (False, True):
        tensors = [torch.full((n,), float(rank)) for n in (1, 1000, 70_000)]
        with _coalescing_manager(device=device, async_ops=asynchronous) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        if asynchronous:
            manager.wait()
        assert all(tensor.unique().tolist() == [total] for tensor in tensors)

        outputs = [torch.empty(ranks * n) for n in (2, 5)]
        with _coalescing_manager(device=device, async_ops=asynchronous) as manager:
            for output in outputs:
                dist.all_gather_into_tensor(
                    output, torch.full((len(output) // ranks,), float(rank))
                )
        if asynchronous:
            manager.wait()
        assert outputs[1].tolist() == [float(r) for r in range(ranks) for _ in range(5)]

        parts = [torch.empty(n) for n in (2, 5)]
        with _coalescing_manager(device=device, async_ops=asynchronous) as manager:
            for part in parts:
                dist.reduce_scatter_tensor(part, torch.full((ranks * len(part),), float(rank)))
        if asynchronous:
            manager.wait()
        assert parts[1].tolist() == [total] * 5


@pytest.mark.quick
@pytest.mark.parametrize("device", [None, CPU], ids=["no device", "cpu"])
def test_coalescing_manager(device: torch.device | None) -> None:
    """Over Gloo the second fails: it has no startCoalescing."""
    run_ranks(3, check_manager, device)


def check_mixed() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    sent = torch.full((30_000,), float(rank))
    received, swapped = torch.empty(30_000), torch.empty(ranks)
    gathered = [torch.empty(2) for _ in range(ranks)]
    with _coalescing_manager(device=CPU, async_ops=True) as manager:
        dist.irecv(received, (rank - 1) % ranks)
        dist.all_to_all_single(swapped, torch.arange(float(ranks)), async_op=True)
        dist.isend(sent, (rank + 1) % ranks)
        dist.all_gather(gathered, torch.full((2,), float(rank)), async_op=True)
    (work,) = manager.works
    tensors = work.get_future().wait()
    assert work.is_completed()
    assert work.is_success()
    # Every operation's results, in order.
    assert tensors[0] is received or torch.equal(tensors[0], received)
    assert len(tensors) == 2 + ranks
    assert received.unique().tolist() == [(rank - 1) % ranks]
    assert swapped.tolist() == [float(rank)] * ranks
    assert gathered[-1].tolist() == [ranks - 1.0] * 2
    assert len(work.result()) == 2 + ranks


def test_collectives_and_messages_in_one_work() -> None:
    run_ranks(3, check_mixed)


def check_batches() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    backend = dist.group.WORLD._get_backend(CPU)
    assert backend.supports_coalescing
    for size in (1, 100_000):
        received = torch.empty(size)
        operations = [
            dist.P2POp(dist.irecv, received, (rank - 1) % ranks),
            dist.P2POp(dist.isend, torch.full((size,), float(rank)), (rank + 1) % ranks),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert received.unique().tolist() == [(rank - 1) % ranks]


def test_batches_of_messages() -> None:
    run_ranks(3, check_batches)


def check_errors() -> None:
    rank = dist.get_rank()
    backend = dist.group.WORLD._get_backend(CPU)
    with pytest.raises(RuntimeError, match="without a start"):
        backend._end_coalescing()
    # An exception leaves the manager's region open: the next one is not disturbed.
    with contextlib.suppress(ValueError), _coalescing_manager(device=CPU):
        dist.isend(torch.ones(1), 1 - rank, tag=5)
        raise ValueError
    dist.recv(torch.empty(1), 1 - rank, tag=5)
    dist.distributed_c10d._world.pg_coalesce_state.pop(dist.group.WORLD, None)
    # One of the works fails: so does the whole.
    dist.barrier()
    with _coalescing_manager(device=CPU, async_ops=True) as manager:
        if rank == 0:
            dist.irecv(torch.empty(2), 1, tag=1)
            dist.irecv(torch.empty(2), 1, tag=2)
        else:
            dist.isend(torch.ones(2), 0, tag=1)
            dist.isend(torch.ones(3), 0, tag=2)
    (work,) = manager.works
    if rank == 0:
        with pytest.raises(RuntimeError, match="rank 1 sent 12 bytes"):
            work.wait()
        with pytest.raises(RuntimeError, match="rank 1 sent 12 bytes"):
            work.get_future().wait()
        assert not work.is_success()


def test_errors_of_regions() -> None:
    run_ranks(2, check_errors)
