"""Groups made of others: split, merge, and shrink to the ranks that are left."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from launch import run_ranks

CPU = torch.device("cpu")


def sum_of_ranks(group: dist.ProcessGroup) -> float:
    tensor = torch.tensor([float(dist.get_rank())])
    group.allreduce([tensor]).wait()
    return tensor.item()


def check_split() -> None:
    rank = dist.get_rank()
    world = dist.group.WORLD
    assert world._get_backend(CPU).supports_splitting
    ranks = [[0, 2], [1, 3]][rank % 2]
    # dist.split_group itself asks for an accelerator.
    group = world.split_group(ranks, timedelta(seconds=40), group_name=f"half {rank % 2}")
    assert (group.rank(), group.size()) == (rank // 2, 2)
    assert group._get_backend(CPU).name() == "floe"
    assert sum_of_ranks(group) == sum(ranks)
    assert sum_of_ranks(world) == 6
    # Of a split group, and one that not all ranks are in.
    alone = group.split_group([group.rank()], group_name=f"alone {rank}")
    assert sum_of_ranks(alone) == rank
    if rank < 3:
        three = world.split_group([0, 1, 2], group_name="three")
        assert sum_of_ranks(three) == 3
    dist.barrier()
    for one in (alone, group):
        one.shutdown()


def test_split() -> None:
    run_ranks(4, check_split)


def check_merge() -> None:
    world = dist.group.WORLD
    store = dist.PrefixStore("merging", world.get_group_store())
    # PyTorch numbers the processes as they come.
    whole = world.merge_remote_group(store, 3, timedelta(seconds=40), group_name="whole")
    assert whole.size() == 3
    numbers: list = [None] * 3
    dist.all_gather_object(numbers, whole.rank())
    assert sorted(numbers) == [0, 1, 2]
    assert sum_of_ranks(whole) == 3
    assert sum_of_ranks(world) == 3
    whole.shutdown()


def test_merge() -> None:
    run_ranks(3, check_merge)


def check_usable(ranks: int) -> None:
    assert dist.get_world_size() == ranks
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    assert tensor.unique().tolist() == [ranks]
    # PyTorch takes every group on CPUs for Gloo's: DDP's logger would crash.
    model = DistributedDataParallel(nn.Linear(3, 3))
    model(torch.ones(2, 3)).sum().backward()
    assert model._get_ddp_logging_data()["world_size"] == ranks


def check_shrink_after_a_death() -> None:
    rank = dist.get_rank()
    dist.barrier()
    if rank == 1:
        os._exit(1)
    with pytest.raises(RuntimeError, match="rank 1"):
        dist.all_reduce(torch.ones(1000))
    dist.shrink_group([1])
    assert dist.get_rank() == {0: 0, 2: 1, 3: 2}[rank]
    check_usable(3)


def test_shrink_after_a_death() -> None:
    run_ranks(4, check_shrink_after_a_death, killed=(1,))


def check_shrink_of_the_living() -> None:
    rank = dist.get_rank()
    pending = dist.irecv(torch.empty(1), (rank + 1) % 4, tag=99)
    dist.barrier()
    if rank == 2:
        # Its operations end, for the others abort the group; it takes no part in the new one.
        with pytest.raises(RuntimeError):
            pending.wait()
        return
    dist.shrink_group([2], shrink_flags=dist.distributed_c10d.SHRINK_ABORT)
    check_usable(3)
    if dist.get_rank() == 0:
        dist.shrink_group([1, 2])
        check_usable(1)


def test_shrink_of_living_ranks_aborts_when_asked() -> None:
    run_ranks(4, check_shrink_of_the_living)
