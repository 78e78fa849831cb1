"""Ranks that die or leave: the others get an error that names them, and do not hang."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from launch import run_ranks

VICTIM = 2


def stream(asynchronous: bool) -> tuple[str, float]:
    tensor = torch.ones(10_000)
    for _ in range(20):
        dist.all_reduce(tensor)
    if dist.get_rank() == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)

    def for_ever() -> None:
        while True:
            if asynchronous:
                dist.all_reduce(tensor, async_op=True).get_future().wait()
            else:
                dist.all_reduce(tensor)

    start = time.monotonic()
    with pytest.raises(dist.DistBackendError) as raised:
        for_ever()
    return str(raised.value), time.monotonic() - start


@pytest.mark.parametrize(
    "asynchronous",
    [pytest.param(False, marks=pytest.mark.quick), True],
    ids=["blocking", "futures"],
)
def test_a_killed_rank_is_named_by_all_others(asynchronous: bool) -> None:
    values = run_ranks(4, stream, asynchronous, killed=(VICTIM,))
    for rank, value in enumerate(values):
        if rank == VICTIM:
            continue
        message, seconds = value
        assert f"rank {VICTIM}" in message
        assert "FLOE_ERR_PEER" in message
        assert seconds < 30  # half of the group's timeout: it was noticed, not waited for


def stop() -> str:
    group = dist.new_group(timeout=timedelta(seconds=2))
    survivors = dist.new_group([0, 1])
    pid = torch.tensor([os.getpid()])
    dist.broadcast(pid, VICTIM)
    if dist.get_rank() == VICTIM:
        os.kill(os.getpid(), signal.SIGSTOP)
    with pytest.raises(dist.DistBackendError) as raised:
        dist.all_reduce(torch.ones(10), group=group)
    if dist.get_rank() != VICTIM:
        dist.barrier(survivors)
        if dist.get_rank() == 0:
            os.kill(int(pid.item()), signal.SIGCONT)
    dist.barrier()  # a group that saw nothing of it is whole
    return str(raised.value)


def test_a_stopped_rank_is_named_when_the_time_is_up() -> None:
    for message in run_ranks(3, stop)[:VICTIM]:
        assert "Timed out" in message
        assert f"rank {VICTIM}" in message


def leave() -> str:
    if dist.get_rank() == 1:
        dist.destroy_process_group()
        dist.init_process_group("floe", store=dist.HashStore(), rank=0, world_size=1)
        return ""
    with pytest.raises(dist.DistBackendError) as raised:
        dist.all_reduce(torch.ones(3))
    return str(raised.value)


def test_a_rank_that_leaves_is_named() -> None:
    values = run_ranks(3, leave)
    for message in (values[0], values[2]):
        assert "rank 1" in message
        assert "left" in message


def last_words() -> float:
    """What a rank has sent before it leaves arrives."""
    if dist.get_rank() == 0:
        dist.send(torch.full((1000,), 3.0), 1)
        return 3.0
    time.sleep(1)
    tensor = torch.empty(1000)
    dist.recv(tensor, 0)
    return tensor[999].item()


def test_a_message_sent_before_leaving_arrives() -> None:
    assert run_ranks(2, last_words) == [3.0, 3.0]


def forked() -> str:
    """A child of fork, as DataLoader's workers are, can't use the group, nor harm it."""
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(tensor)
            os.write(writer, b"no error")
        except RuntimeError as error:
            os.write(writer, str(error).encode())
        dist.destroy_process_group()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        message = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    dist.all_reduce(tensor)
    assert tensor.tolist() == [dist.get_world_size() ** 2] * 3
    return message


def test_a_forked_child_gets_an_error() -> None:
    for message in run_ranks(2, forked):
        assert "FLOE_ERR_FORKED" in message


class Squares(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index)]) ** 2


def load() -> float:
    total = torch.zeros(1)
    loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2)
    for batch in loader:
        part = batch.sum(0)
        dist.all_reduce(part)
        total += part
    return total.item()


def test_data_loader_workers() -> None:
    expected = 2 * sum(i**2 for i in range(64))
    assert run_ranks(2, load) == [expected] * 2
