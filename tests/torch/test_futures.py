"""Asynchronous works: waiting, polling, futures and their callbacks."""

from __future__ import annotations

import gc
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from launch import run_ranks


def check_works() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    # Many at once, waited for in another order.
    tensors = [torch.full((1000 + i,), float(rank)) for i in range(50)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
    assert all(tensor.unique().tolist() == [sum(range(ranks))] for tensor in tensors)
    # Polled.
    work = dist.all_reduce(torch.ones(5), async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    assert work.result()[0].tolist() == [ranks] * 5
    # Never waited for, and the tensor dropped: its memory lives until the operation has ended.
    for _ in range(20):
        dist.all_reduce(torch.ones(10_000), async_op=True)
    gc.collect()
    dist.barrier()


def test_works_are_waited_polled_or_dropped() -> None:
    run_ranks(3, check_works)


def check_values() -> None:
    ranks = dist.get_world_size()
    tensor = torch.ones(3)
    value = dist.all_reduce(tensor, async_op=True).get_future().wait()
    assert len(value) == 1
    assert value[0].data_ptr() == tensor.data_ptr()
    outputs = [torch.empty(2) for _ in range(ranks)]
    value = dist.all_gather(outputs, torch.ones(2), async_op=True).get_future().wait()
    assert [v.data_ptr() for v in value] == [o.data_ptr() for o in outputs]
    assert dist.barrier(async_op=True).get_future().wait() == []
    # After the end as well, and it is the same one.
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert work.get_future().done()
    assert work.get_future().value()[0].data_ptr() == tensor.data_ptr()


def test_futures_have_the_outputs() -> None:
    run_ranks(2, check_values)


def check_then() -> list[str]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    threads = []

    def double(future: torch.futures.Future) -> torch.Tensor:
        threads.append(threading.get_native_id())
        return 2 * future.value()[0]

    work = dist.all_reduce(torch.full((4,), float(rank)), async_op=True)
    chained = work.get_future().then(double).then(lambda future: future.value() + 1)
    work.wait()
    assert chained.wait().tolist() == [2 * sum(range(ranks)) + 1] * 4
    assert len(threads) == 1
    return []


@pytest.mark.quick
def test_then_callbacks() -> None:
    run_ranks(2, check_then)


def check_nested(depth: int) -> None:
    """As PowerSGD does: callbacks that block on the future of the next collective, all at once."""
    ranks = dist.get_world_size()

    def again(future: torch.futures.Future) -> torch.Tensor:
        tensor = future.value()[0]
        return dist.all_reduce(tensor, async_op=True).get_future().wait()[0]

    firsts = [
        dist.all_reduce(torch.ones(10), async_op=True).get_future().then(again)
        for _ in range(depth)
    ]
    for future in firsts:
        assert future.wait().tolist() == [ranks**2] * 10


@pytest.mark.parametrize("depth", [1, 40])
def test_callbacks_may_block_on_futures(depth: int) -> None:
    run_ranks(2, check_nested, depth)


def check_failing_callback() -> str:
    def fail(future: torch.futures.Future) -> None:
        raise ValueError("from the callback")

    future = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(fail)
    with pytest.raises(Exception, match="from the callback"):
        future.wait()
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [dist.get_world_size()] * 2
    return ""


def test_a_failing_callback_harms_nobody() -> None:
    run_ranks(2, check_failing_callback)


def check_expired_wait() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    tensor = torch.full((3,), float(rank))
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        with pytest.raises(dist.DistBackendError, match=" Timed out "):
            work.wait(timedelta(milliseconds=50))
        assert not work.is_completed()
        dist.send(torch.ones(1), 1)
        work.wait()
    else:
        dist.recv(torch.empty(1), 0)
        dist.all_reduce(tensor)
    assert tensor.tolist() == [sum(range(ranks))] * 3


def test_an_expired_wait_leaves_the_work_valid() -> None:
    run_ranks(2, check_expired_wait)


def check_threads() -> None:
    """Each thread has its group: collectives of one group are called in order."""
    ranks = dist.get_world_size()
    groups = [dist.new_group(list(range(ranks))) for _ in range(3)]
    wrong = []

    def work(group: dist.ProcessGroup) -> None:
        for i in range(50):
            tensor = torch.full((100,), float(i))
            dist.all_reduce(tensor, group=group)
            if tensor[99] != ranks * i:
                wrong.append((i, tensor[99]))

    threads = [threading.Thread(target=work, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_with_groups_of_their_own() -> None:
    run_ranks(2, check_threads)


def profiled() -> list[str]:
    ranks = dist.get_world_size()
    tensor = torch.ones(8)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, async_op=True).wait()
        dist.broadcast(tensor, 0)
        dist.all_gather([torch.empty(8) for _ in range(ranks)], tensor)
        dist.barrier()
    events = [event for event in recorded.events() if event.name.startswith("floe:")]
    assert [[8]] in [event.input_shapes for event in events]
    return sorted(event.name for event in events)


def test_the_profiler_shows_the_operations() -> None:
    expected = ["all_gather", "all_reduce", "all_reduce", "barrier", "broadcast"]
    for names in run_ranks(2, profiled):
        assert names == [f"floe:{name}" for name in expected]


def check_no_work() -> None:
    group, total = dist.group.WORLD, float(dist.get_world_size())
    tensors = [torch.ones(3), torch.ones(3, 2)[:, 0], torch.ones(3, 2)]
    options, barrier = dist.AllreduceOptions(), dist.BarrierOptions()
    options.asyncOp = barrier.asyncOp = False
    assert [group.allreduce([tensor], options) for tensor in tensors] == [None] * 3
    assert all(tensor.unique().tolist() == [total] for tensor in tensors)
    assert group.barrier(barrier) is None
    options.timeout = timedelta(seconds=30)  # is set, and set back: that takes a work
    group.allreduce(tensors[:1], options).wait()
    group._start_coalescing(torch.device("cpu"))
    options = dist.AllreduceOptions()
    options.asyncOp = False
    assert group.allreduce(tensors[2:], options) is not None
    whole = group._end_coalescing(torch.device("cpu"))
    whole.wait()
    assert torch.equal(whole.result()[0], torch.full((3, 2), total * total))


@pytest.mark.quick
def test_who_waits_anyway_gets_no_work() -> None:
    run_ranks(2, check_no_work)
