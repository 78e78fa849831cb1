"""Collectives that callbacks of futures issue: in the same order on every rank, at any timing."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from launch import run_ranks

Future = torch.futures.Future


def reduced(value: float) -> Future:
    return dist.all_reduce(torch.full((10,), value), async_op=True).get_future()


def check_racing() -> None:
    """All have the same shape, so one that meets another's is a wrong sum."""
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def nested(i: int) -> Callable[[Future], torch.Tensor]:
        def callback(_: Future) -> torch.Tensor:
            time.sleep(0.002 * ((i + rank) % 3 == 0))
            return reduced(1000.0 + i).wait()[0]

        return callback

    futures = []
    for i in range(40):
        future = reduced(1.0)
        # Complete when the callback is attached, on one rank and not on the other.
        time.sleep(0.003 * ((i + rank) % 2))
        futures.append(future.then(nested(i)).then(nested(100 + i)))
        own = torch.full((10,), float(i))
        dist.all_reduce(own)
        assert own.tolist() == [ranks * i] * 10
    for i, future in enumerate(futures):
        assert future.wait().tolist() == [ranks * (1100 + i)] * 10


def test_callbacks_and_the_program_do_not_race() -> None:
    run_ranks(2, check_racing)


def check_kinds() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def exchange(base: float) -> list[float]:
        """Blocking ones, those that are made of messages among them."""
        received = torch.empty(ranks)
        dist.all_to_all_single(received, torch.full((ranks,), float(base + rank)))
        root = torch.full((1,), float(base + rank))
        dist.broadcast(root, 1)
        dist.barrier()
        return [*received.tolist(), root.item()]

    def expected(base: float) -> list[float]:
        return [*(base + r for r in range(ranks)), base + 1]

    futures = [reduced(1.0).then(lambda _, i=i: exchange(100.0 * i)) for i in range(1, 11)]
    for i in range(1, 11):
        assert exchange(i) == expected(i)
    for i, future in enumerate(futures, 1):
        assert future.wait() == expected(100.0 * i)


def test_callbacks_may_run_any_collective() -> None:
    run_ranks(3, check_kinds)


def check_depth() -> None:
    ranks = dist.get_world_size()

    def down(depth: int) -> torch.Tensor:
        future = reduced(1.0)
        return future.wait()[0] if depth == 0 else future.then(lambda _: down(depth - 1)).wait()

    assert down(7).tolist() == [ranks] * 10
    with pytest.raises(RuntimeError, match="at most 7 levels of callbacks"):
        down(8)
    dist.barrier()


def test_callbacks_nest_to_a_limit() -> None:
    run_ranks(2, check_depth)


def check_later_future() -> None:
    """The callback blocks on what comes after it in the order of completion."""
    if dist.get_rank() == 1:
        time.sleep(0.5)  # the callback is attached by then
        dist.all_reduce(torch.ones(10))
        dist.all_reduce(torch.full((10,), 2.0))
        return
    issued, later = threading.Event(), []

    def callback(_: Future) -> torch.Tensor:
        issued.wait()
        return later[0].wait()[0]

    future = reduced(1.0).then(callback)
    later.append(reduced(2.0))
    issued.set()
    start = time.monotonic()
    assert future.wait().tolist() == [4.0] * 10
    assert time.monotonic() - start < 20  # a third of the group's timeout


def test_a_callback_may_block_on_a_later_future() -> None:
    run_ranks(2, check_later_future)


def check_computing() -> None:
    """A callback that takes long keeps its place."""
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def nested(i: int) -> torch.Tensor:
        end = time.monotonic() + (2.5 if i == 0 and rank == 0 else 0)
        while time.monotonic() < end:
            pass
        return reduced(float(i)).wait()[0]

    futures = [reduced(1.0).then(lambda _, i=i: nested(i)) for i in range(3)]
    for i, future in enumerate(futures):
        assert future.wait().tolist() == [float(ranks * i)] * 10


def test_a_slow_callback_keeps_the_order() -> None:
    run_ranks(2, check_computing)


def check_abort(before: int) -> str:
    """Rank 1's callback never issues what rank 0's waits for."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    for _ in range(before):
        reduced(1.0).then(lambda _: reduced(1.0).wait()).wait()
    start = time.monotonic()
    if dist.get_rank() == 1:
        reduced(1.0).wait()
        time.sleep(1)
        if before:
            backend.abort()
        time.sleep(3)
        return ""
    if not before:
        threading.Timer(1, backend.abort).start()
    with pytest.raises(Exception, match="FLOE_ERR_ABORTED") as raised:
        reduced(1.0).then(lambda _: reduced(1.0).wait()).wait()
    assert time.monotonic() - start < 20
    return str(raised.value)


@pytest.mark.parametrize(
    ("before", "what"),
    [(0, "creating a communicator"), (1, "world+1")],
    ids=["creating", "under way"],
)
def test_abort_ends_collectives_of_callbacks(before: int, what: str) -> None:
    assert what in run_ranks(2, check_abort, before)[0]


def check_death() -> tuple[str, float]:
    """Rank 1 dies while the others' callbacks create their communicator."""
    if dist.get_rank() == 1:
        reduced(1.0).wait()
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(Exception, match="FLOE_ERR_PEER") as raised:
        reduced(1.0).then(lambda _: reduced(1.0).wait()).wait()
    return str(raised.value), time.monotonic() - start


def test_a_death_while_the_communicator_is_created() -> None:
    values = run_ranks(3, check_death, killed=(1,))
    for rank in (0, 2):
        message, seconds = values[rank]
        assert "rank 1" in message
        assert seconds < 20  # a third of the group's timeout: it was noticed, not waited for


def check_failed_creation(again_at_once: bool) -> str:
    """No rank can open anything but its store when callbacks first need a communicator."""
    seconds = 3
    group = dist.new_group(timeout=timedelta(seconds=seconds))

    def nested(_: Future) -> torch.Tensor:
        tensor = torch.full((10,), 2.0)
        return dist.all_reduce(tensor, group=group, async_op=True).get_future().wait()[0]

    def in_callback() -> torch.Tensor:
        work = dist.all_reduce(torch.ones(10), group=group, async_op=True)
        return work.get_future().then(nested).wait()

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.dup(0) for _ in range(100)]  # no number below the last is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1, limits[1]))
    os.close(taken.pop())
    with pytest.raises(Exception, match="FLOE_ERR_") as raised:
        in_callback()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for descriptor in taken:
        os.close(descriptor)
    dist.barrier()
    if again_at_once:
        assert in_callback().tolist() == [4.0] * 10
    time.sleep(seconds + 1)  # what the failed attempt has left would have timed out
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=group)
    assert tensor.item() == 2.0
    assert in_callback().tolist() == [4.0] * 10
    return str(raised.value)


@pytest.mark.parametrize("again_at_once", [True, False])
def test_a_communicator_that_could_not_be_created_harms_nobody(again_at_once: bool) -> None:
    for message in run_ranks(2, check_failed_creation, again_at_once):
        assert "+1" in message, message
