"""The barrier that says who is missing: in Gloo's words, and the group remains usable."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from launch import run_ranks


def monitored_barrier(milliseconds: int, wait_all_ranks: bool = False) -> None:
    """Past PyTorch's check of the backend's name."""
    timeout = timedelta(milliseconds=milliseconds)
    dist.group.WORLD.monitored_barrier(timeout, wait_all_ranks)


def sum_works() -> None:
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [dist.get_world_size()] * 3


def check_passing(backend: str) -> None:
    rank = dist.get_rank()
    keys = dist.group.WORLD.get_group_store().num_keys()
    for wait_all_ranks in (False, True, False):
        time.sleep(0.2 * rank)
        before = time.monotonic()
        monitored_barrier(60_000, wait_all_ranks)
        # Who comes first waits for the last.
        assert rank != 0 or time.monotonic() - before > 0.3
    sum_works()
    if backend == "floe":
        assert dist.group.WORLD.get_group_store().num_keys() == keys


@pytest.mark.parametrize("backend", ["floe", "gloo"])
def test_all_ranks_come(backend: str) -> None:
    run_ranks(3, check_passing, backend, backend=backend)


def check_missing() -> None:
    rank = dist.get_rank()
    # Ranks 2 and 3 do not come: the first of them is named.
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 2 failed to pass monitoredBarrier in 1500 ms"):
            monitored_barrier(1500)
    elif rank == 1:
        with pytest.raises(
            RuntimeError,
            match=r"Rank 1 successfully reached monitoredBarrier, but received errors while waiting"
            " for send/recv from rank 0.*Rank 0 says: Rank 2 failed",
        ):
            monitored_barrier(60_000)
    sum_works()  # and ranks 2 and 3 still can
    if rank >= 2:
        # Too late, and they are told so.
        with pytest.raises(RuntimeError, match="Rank 0 says: Rank 2 failed"):
            monitored_barrier(60_000)
    # All that are missing are named.
    if rank == 0:
        with pytest.raises(
            RuntimeError, match="Ranks 1, 3 failed to pass monitoredBarrier in 1500"
        ):
            monitored_barrier(1500, wait_all_ranks=True)
    elif rank == 2:
        with pytest.raises(RuntimeError, match="Rank 0 says: Ranks 1, 3 failed"):
            monitored_barrier(60_000)
    sum_works()


def test_missing_ranks_are_named_and_the_group_lives_on() -> None:
    run_ranks(4, check_missing)


def check_timeouts() -> None:
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError, match="Rank 0 timed out in monitoredBarrier after 0 ms"):
            monitored_barrier(0)
    dist.barrier()
    if dist.get_rank() == 1:
        # Here it is the answer of the barrier that rank 0 has given up.
        with pytest.raises(RuntimeError, match="Rank 0 says: Rank 0 timed out"):
            monitored_barrier(60_000)
        with pytest.raises(RuntimeError, match="Rank 0 has not answered in 300 ms"):
            monitored_barrier(300)
    dist.barrier()


def test_rank_0_out_of_time_and_without_an_answer() -> None:
    run_ranks(2, check_timeouts)
