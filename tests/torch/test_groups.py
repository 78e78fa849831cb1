"""Process groups: how they are made, used side by side, and found without an import."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from launch import run_ranks, run_scripts, run_torchrun


def check_groups() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pairs = [[0, 1], [2, 3], [1, 3]]
    groups = [dist.new_group(pair) for pair in pairs]
    for pair, group in zip(pairs, groups, strict=True):
        if rank not in pair:
            continue
        tensor = torch.full((5,), float(rank))
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [float(sum(pair))] * 5
        assert dist.get_backend(group) == "floe"
    # Two groups used in opposite order by asynchronous works.
    first, second = dist.new_group(), dist.new_group()
    order = [first, second] if rank % 2 == 0 else [second, first]
    tensors = {id(group): torch.ones(1000) for group in order}
    works = [dist.all_reduce(tensors[id(g)], group=g, async_op=True) for g in order]
    for work in works:
        work.wait()
    assert all(t.unique().tolist() == [ranks] for t in tensors.values())
    # Made, used and destroyed, again and again.
    for _ in range(10):
        group = dist.new_group(timeout=timedelta(seconds=30))
        dist.barrier(group=group)
        dist.destroy_process_group(group)


@pytest.mark.quick
def test_groups_side_by_side() -> None:
    run_ranks(4, check_groups)


def check_again() -> None:
    ranks = dist.get_world_size()
    store = dist.group.WORLD.get_group_store()
    before = store.num_keys()
    for _ in range(3):
        group = dist.new_group()
        tensor = torch.ones(2)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [ranks] * 2
        # A callback's collective has a communicator of its own, created now.
        future = dist.all_reduce(tensor, group=group, async_op=True).get_future()
        future.then(lambda _, group=group: dist.barrier(group=group)).wait()
        dist.destroy_process_group(group)
        dist.barrier()
    # floe removes its keys; PyTorch's own barrier at a group's creation leaves one or two.
    assert store.num_keys() - before <= 3 * 2


def test_the_store_is_left_clean() -> None:
    run_ranks(2, check_again)


def check_options() -> None:
    dist.barrier(device_ids=[0])
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.name() == "floe"
    backend.set_timeout(timedelta(seconds=33))
    dist.barrier()
    with pytest.raises(RuntimeError, match="timeout_ms is 0"):
        backend.set_timeout(timedelta(0))
    before = backend._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    assert backend._get_sequence_number_for_group() == before + 2
    # An operation may have a timeout of its own.
    dist.barrier(timeout=timedelta(seconds=5))
    dist.barrier()


def test_options_of_the_backend() -> None:
    run_ranks(2, check_options)


def check_own_timeouts() -> None:
    """Receives start while another thread's barriers, with a timeout that is theirs alone, do."""
    peer, own = 1 - dist.get_rank(), timedelta(seconds=2)
    received = [torch.zeros(1) for _ in range(5000)]
    works = []

    def receive() -> None:
        works.extend(dist.irecv(tensor, peer) for tensor in received)

    thread = threading.Thread(target=receive)
    thread.start()
    going_on = torch.ones(1)
    while going_on.item() != 0:
        for _ in range(10):
            dist.barrier(timeout=own)
        going_on.fill_(thread.is_alive())
        dist.all_reduce(going_on)
    thread.join()
    time.sleep(own.total_seconds() + 0.5)
    for _ in works:
        dist.send(torch.ones(1), peer)
    for work in works:
        work.wait()
    assert sum(tensor.item() for tensor in received) == len(received)


def test_an_own_timeout_is_that_of_no_other_operation() -> None:
    run_ranks(2, check_own_timeouts)


CPU_FLOE = """
join(job, rank, ranks, backend="cpu:floe")
tensor = torch.ones(3)
dist.all_reduce(tensor)
assert tensor.tolist() == [ranks] * 3
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
model(torch.ones(2, 3)).sum().backward()
dist.destroy_process_group()
"""


def test_backend_by_device() -> None:
    for ended in run_scripts(2, CPU_FLOE):
        assert ended.code == 0, ended.output


TORCHRUN = """
import torch
import torch.distributed as dist
dist.init_process_group("floe")
assert dist.is_backend_available("floe")
tensor = torch.ones(3)
dist.all_reduce(tensor)
print(f"sum {tensor.tolist()}\\n", end="")
dist.destroy_process_group()
"""


@pytest.mark.quick
def test_torchrun_needs_no_import(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(TORCHRUN)
    ended = run_torchrun(2, str(script))
    assert ended.code == 0, ended.output
    assert ended.output.count("sum [2.0, 2.0, 2.0]") == 2, ended.output


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_import_of_torch_does_not_load_the_library() -> None:
    done = python("import torch; print('libfloe' in open('/proc/self/maps').read())")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_the_package_can_be_imported_first_and_without_entry_points() -> None:
    code = "import torch_floe, torch.distributed as d; print(d.is_backend_available('floe'))"
    for environment in ({}, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}):
        done = python(code, **environment)
        assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_another_torch_is_refused_by_name() -> None:
    code = """
import torch, torch.distributed as dist, torch_floe._build as build
build.TORCH_VERSION = "1.13.1"
try:
    dist.init_process_group("floe", store=dist.HashStore(), rank=0, world_size=1)
except RuntimeError as error:
    print(error)
"""
    done = python(code)
    assert "built for torch 1.13 and this is torch 2." in done.stdout, done.stderr


def test_world_of_one_needs_no_network() -> None:
    code = """
import torch, torch.distributed as dist
dist.init_process_group("floe", store=dist.HashStore(), rank=0, world_size=1)
t = torch.ones(2); dist.all_reduce(t); dist.barrier(); print(t.tolist())
"""
    done = python(code)
    assert (done.returncode, done.stdout) == (0, "[1.0, 1.0]\n"), done.stderr
