"""floe in the place of Gloo: scripts that name "gloo", or nothing, run over floe unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import torch_floe
from launch import Ended, run_ranks, run_scripts, run_torchrun

CHECK = """
def backend(group=None):
    backend = (group or dist.group.WORLD)._get_backend(torch.device("cpu"))
    return getattr(backend, "wrapped_pg", backend).name()

def check(group=None):
    assert backend(group) == "floe", backend(group)
    tensor = torch.full((100,), 1.0 + rank)
    dist.all_reduce(tensor, group=group)
    assert tensor.unique().tolist() == [ranks * (ranks + 1) / 2]
    dist.barrier(group=group)
"""


def assert_all_end_well(ended: list[Ended]) -> None:
    for one in ended:
        assert one.code == 0, one.output
        assert "Warning" not in one.output, one.output


GLOO_SCRIPT = (
    CHECK
    + """
import datetime
join(job, rank, ranks, backend=NAME)
check()
assert dist.get_backend() == NAME or NAME is None
group = dist.new_group([0, 1])
check(group)
check(dist.new_group(backend="gloo"))
assert dist.get_backend(group) == dist.get_backend()
objects = [None] * ranks
dist.all_gather_object(objects, rank)
assert objects == list(range(ranks))
dist.monitored_barrier(timeout=datetime.timedelta(seconds=30)) if NAME == "gloo" else None
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
model(torch.ones(2, 3)).sum().backward()
assert model._get_ddp_logging_data()["backend_name"] in ("custom", "gloo", "floe", "undefined")
dist.destroy_process_group()
"""
)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["gloo", "cpu:gloo", None])
def test_groups_of_gloo_run_over_floe(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FLOE_REPLACE_GLOO", "1")
    assert_all_end_well(run_scripts(2, f"NAME = {name!r}\n" + GLOO_SCRIPT))


def test_without_being_asked_gloo_is_gloo() -> None:
    script = CHECK + "join(job, rank, ranks, backend='gloo')\nassert backend() == 'gloo'\n"
    assert_all_end_well(run_scripts(2, script + "dist.destroy_process_group()\n"))


def test_debug_mode_still_checks_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FLOE_REPLACE_GLOO", "1")
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    script = f"""{CHECK}
join(job, rank, ranks, backend="gloo")
check()
try:
    dist.all_reduce(torch.ones(2 + rank))
except RuntimeError as error:
    assert "mismatch" in str(error).lower(), error
else:
    raise AssertionError("ranks disagreed, and nobody noticed")
os._exit(0)
"""
    for ended in run_scripts(2, script):
        assert ended.code == 0, ended.output


TORCHRUN = """
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (2,))  # creates the group itself
tensor = torch.ones(3)
dist.all_reduce(tensor, group=mesh.get_group())
name = dist.group.WORLD._get_backend(torch.device("cpu")).name()
print(f"{name} sum {tensor.tolist()}\\n", end="")
dist.destroy_process_group()
"""


def test_torchrun_with_the_variable_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FLOE_REPLACE_GLOO", "1")
    script = tmp_path / "script.py"
    script.write_text(TORCHRUN)
    ended = run_torchrun(2, str(script))
    assert ended.code == 0, ended.output
    assert ended.output.count("floe sum [2.0, 2.0, 2.0]") == 2, ended.output


def check_call() -> None:
    assert dist.get_backend() == "gloo"
    torch_floe.replace_gloo()
    # The group that exists stays Gloo's; new ones are floe's.
    assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "gloo"
    group = dist.new_group(timeout=timedelta(seconds=30))
    assert group._get_backend(torch.device("cpu")).name() == "floe"
    tensor = torch.ones(5)
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [dist.get_world_size()] * 5


def test_by_a_call() -> None:
    run_ranks(2, check_call, backend="gloo")


def test_world_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FLOE_REPLACE_GLOO", "1")
    assert_all_end_well(run_scripts(1, CHECK + "join(job, rank, ranks, backend='gloo')\ncheck()\n"))


def test_a_wrong_value_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import torch"],
        env={**os.environ, "TORCH_FLOE_REPLACE_GLOO": "yes"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "TORCH_FLOE_REPLACE_GLOO is 'yes': it must be 1 or 0" in done.stderr
