"""A function that is called at the end of each operation of a group."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import OpType

from launch import run_ranks, run_scripts


def check_hook() -> None:
    group = dist.group.WORLD
    with pytest.raises(RuntimeError, match="no completion hook"):
        group._wait_for_pending_works()
    infos, threads = [], set()

    def hook(info: object) -> None:
        time.sleep(0.01)  # works end faster
        infos.append(info)
        threads.add(threading.get_ident())

    group._register_on_completion_hook(hook)
    assert group._has_hooks()
    with pytest.raises(RuntimeError, match="already"):
        group._register_on_completion_hook(hook)
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(3)]  # nobody waits
    dist.barrier()
    dist.broadcast(torch.ones(1), 0)
    other = 1 - dist.get_rank()
    received = dist.irecv(torch.ones(1), other)
    dist.send(torch.ones(1), other)
    received.wait()
    with pytest.raises(RuntimeError):
        dist.all_reduce(torch.ones(1).to_sparse()[:0].to_dense().expand(3))  # refused: no work
    group._wait_for_pending_works()
    # Works that nobody waits for may end a little later than those after them; messages have no
    # sequence number.
    infos.sort(key=lambda info: info.seq)
    kinds = [info.op_type for info in infos]
    assert set(kinds[:2]) == {OpType.SEND, OpType.RECV}
    assert kinds[2:] == [OpType.ALLREDUCE] * 3 + [OpType.BARRIER, OpType.BROADCAST]
    assert [info.seq for info in infos] == [0, 0, 1, 2, 3, 4, 5]
    for info in infos:
        assert info.time_finished >= info.time_started
        assert info.active_duration >= timedelta(0)
    assert threading.get_ident() not in threads
    assert all(work.is_completed() for work in works)
    assert works[0]._get_duration() > 0


@pytest.mark.quick
def test_is_called_for_each_work() -> None:
    run_ranks(2, check_hook)


def check_failed_work() -> None:
    group = dist.new_group(backend="floe", timeout=timedelta(seconds=1))
    seen = []

    def hook(info: object) -> None:
        seen.append(info)
        raise ValueError("a mistake in the hook")

    group._register_on_completion_hook(hook)
    dist.all_reduce(torch.ones(1), group=group)
    if dist.get_rank() == 0:
        with pytest.raises(dist.DistBackendError, match="Timed out"):
            dist.all_reduce(torch.ones(1), group=group)
        group._wait_for_pending_works()
        assert len(seen) == 2
    dist.barrier()


def test_is_called_for_failed_works_and_may_fail() -> None:
    run_ranks(2, check_failed_work)


EXIT = """
join(job, rank, ranks)
dist.group.WORLD._register_on_completion_hook(lambda info: print("hook", flush=True))
for _ in range(5):
    dist.all_reduce(torch.ones(1))
work = dist.all_reduce(torch.ones(1), async_op=True)
"""


@pytest.mark.parametrize("end", ["", "dist.destroy_process_group()"])
def test_all_are_called_before_the_process_ends(end: str) -> None:
    for ended in run_scripts(2, EXIT + end):
        assert ended.code == 0, ended.output
        assert ended.output.count("hook") == 6, ended.output
