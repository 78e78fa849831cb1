"""What PyTorch builds on process groups, over floe: it computes what one process alone does."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch._dynamo  # here once, and not in each rank
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from launch import run_ranks

RANKS = 2
STEPS = 3
BATCH = 8


def model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)
    )


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(BATCH, 16, generator=generator), torch.randn(BATCH, 4, generator=generator)


def part_of(whole: torch.Tensor) -> torch.Tensor:
    return whole.chunk(dist.get_world_size())[dist.get_rank()]


def train(model: nn.Module, optimizer: torch.optim.Optimizer, split: bool) -> None:
    for step in range(STEPS):
        x, y = (part_of(t) if split else t for t in batch(step))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x).float(), y).backward()
        optimizer.step()


def trained_alone() -> nn.Module:
    alone = model()
    train(alone, torch.optim.Adam(alone.parameters(), lr=0.01), split=False)
    return alone


def check_parameters(actual: nn.Module, tolerance: float = 1e-5) -> None:
    for a, e in zip(actual.parameters(), trained_alone().parameters(), strict=True):
        a = a.full_tensor() if isinstance(a, DTensor) else a
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance)


def sharded(policy: MixedPrecisionPolicy) -> nn.Module:
    mesh, whole = init_device_mesh("cpu", (RANKS,)), model()
    for layer in whole:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(whole, mesh=mesh, mp_policy=policy)


def check_fsdp(dtype: torch.dtype, tolerance: float) -> None:
    fsdp = sharded(MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype))
    train(fsdp, torch.optim.Adam(fsdp.parameters(), lr=0.01), split=True)
    check_parameters(fsdp, tolerance)


def check_checkpoint(path: str, save: bool) -> None:
    fsdp = sharded(MixedPrecisionPolicy())
    if save:
        train(fsdp, torch.optim.Adam(fsdp.parameters(), lr=0.01), split=True)
        saving = dcp.async_save({"model": get_model_state_dict(fsdp)}, checkpoint_id=path)
        saving.result()
        return
    state = {"model": get_model_state_dict(fsdp)}
    dcp.load(state, checkpoint_id=path)
    set_model_state_dict(fsdp, state["model"])
    check_parameters(fsdp)


def check_checkpoint_alone(path: str) -> None:
    state = {"model": model().state_dict()}
    dcp.load(state, checkpoint_id=path)
    whole = model()
    whole.load_state_dict(state["model"])
    check_parameters(whole)


def test_distributed_checkpoint(tmp_path: Path) -> None:
    run_ranks(RANKS, check_checkpoint, str(tmp_path), True)
    run_ranks(RANKS, check_checkpoint, str(tmp_path), False)
    run_ranks(1, check_checkpoint_alone, str(tmp_path))  # of another number of ranks


def check_dtensor() -> None:
    mesh = init_device_mesh("cpu", (RANKS,))
    a, b = torch.arange(42.0).reshape(6, 7), torch.arange(35.0).reshape(7, 5)
    rows, columns = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(a, mesh, [Shard(1)])
    assert torch.equal(rows.redistribute(mesh, [Shard(1)]).to_local(), columns.to_local())
    assert torch.equal(rows.full_tensor(), a)
    product = columns @ distribute_tensor(b, mesh, [Shard(0)])
    assert product.placements == (Partial(),)
    assert torch.equal(product.redistribute(mesh, [Shard(0)]).full_tensor(), a @ b)
    assert torch.equal(product.redistribute(mesh, [Replicate()]).to_local(), a @ b)
    assert rows.sum().full_tensor() == a.sum()


def check_tensor_parallel() -> None:
    mesh, whole = init_device_mesh("cpu", (RANKS,)), model()
    split = parallelize_module(
        copy.deepcopy(whole), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}
    )
    x, _ = batch(0)
    split(x).square().sum().backward()
    whole(x).square().sum().backward()
    for a, e in zip(split.parameters(), whole.parameters(), strict=True):
        grad = a.grad.full_tensor() if isinstance(a.grad, DTensor) else a.grad
        torch.testing.assert_close(grad, e.grad, rtol=1e-4, atol=1e-4)


def check_zero() -> None:
    ddp = DistributedDataParallel(model())
    zero = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=0.01)
    train(ddp, zero, split=True)
    check_parameters(ddp)


def check_uneven_inputs() -> None:
    """Ranks with fewer batches shadow the collectives of the others."""
    rank = dist.get_rank()
    ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        ddp.module.weight.fill_(0)
    steps = 0
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1.0)
    with Join([ddp]):
        for _ in range(2 + 3 * rank):
            optimizer.zero_grad()
            ddp(torch.full((1, 1), rank + 1.0)).sum().backward()
            optimizer.step()
            steps += 1
    # Gradients (1 + 2) / 2 twice, then 2 / 2, of both ranks still, three times.
    assert steps == 2 + 3 * rank
    assert ddp.module.weight.item() == -(2 * 1.5 + 3 * 1.0)


def check_pipeline() -> None:
    rank, whole = dist.get_rank(), model()
    cut = copy.deepcopy(whole[:2] if rank == 0 else whole[2:])
    stage = PipelineStage(cut, rank, RANKS, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    x, y = batch(0)
    if rank == 0:
        schedule.step(x)
    else:
        torch.testing.assert_close(schedule.step(target=y), whole(x))
    nn.functional.mse_loss(whole(x), y).backward()
    for a, e in zip(
        cut.parameters(), (whole[:2] if rank == 0 else whole[2:]).parameters(), strict=True
    ):
        torch.testing.assert_close(a.grad, e.grad)


def all_functional(x: torch.Tensor, group: dist.ProcessGroup) -> list[torch.Tensor]:
    gathered = funcol.all_gather_tensor(x, 0, group)
    return [
        funcol.all_reduce(x * 2, "sum", group) + 1,
        gathered.sin(),
        funcol.reduce_scatter_tensor(gathered, "avg", 0, group),
        funcol.all_to_all_single(x, None, None, group).cos(),
        funcol.broadcast(x, 1, group),
    ]


def expected_functional(rank: int, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    parts = [x.chunk(RANKS)[rank] for x in inputs]
    return [
        2 * torch.stack(inputs).sum(0) + 1,
        torch.cat(inputs).sin(),
        inputs[rank],
        torch.cat(parts).cos(),
        inputs[1],
    ]


def check_functional(backend: str) -> None:
    function = all_functional
    if backend:
        function = torch.compile(all_functional, fullgraph=True, backend=backend)
    for i in range(2):
        inputs = [torch.arange(8.0) + 10 * rank + i for rank in range(RANKS)]
        rank = dist.get_rank()
        actual = function(inputs[rank], dist.group.WORLD)
        for a, e in zip(actual, expected_functional(rank, inputs), strict=True):
            torch.testing.assert_close(a, e)


@pytest.mark.parametrize("backend", ["", "aot_eager", "inductor"])
def test_functional_collectives(backend: str) -> None:
    run_ranks(RANKS, check_functional, backend)


def check_detail() -> None:
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    group = dist.new_group()
    assert isinstance(
        group._get_backend(torch.device("cpu")), dist.distributed_c10d._ProcessGroupWrapper
    )
    ddp = DistributedDataParallel(model(), process_group=group)
    train(ddp, torch.optim.Adam(ddp.parameters(), lr=0.01), split=True)
    check_parameters(ddp)
    with pytest.raises(RuntimeError, match="mismatch"):
        dist.all_reduce(torch.ones(3 + dist.get_rank()), group=group)


CHECKS = {
    "FSDP2": lambda: check_fsdp(torch.float32, 1e-5),
    "FSDP2 in bf16": lambda: check_fsdp(torch.bfloat16, 3e-2),
    "DTensor": check_dtensor,
    "tensor parallel": check_tensor_parallel,
    "ZeRO": check_zero,
    "uneven inputs": check_uneven_inputs,
    "pipeline": check_pipeline,
    "debug mode DETAIL": check_detail,
}


@pytest.mark.parametrize("name", CHECKS)
def test_two_ranks(name: str) -> None:
    run_ranks(RANKS, CHECKS[name])
