"""DistributedDataParallel as it is used: the same as one process with the whole batch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import torch_floe
from launch import run_ranks

BATCH = 12  # divided among the ranks
STEPS = 4


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.unused = nn.Linear(64, 3)
        self.last = nn.Linear(64, 3)

    def forward(self, x: torch.Tensor, use_all: bool = True) -> torch.Tensor:
        hidden = self.layers(x)
        return self.last(hidden) + (self.unused(hidden) if use_all else 0)


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 20, generator=generator)
    return x, torch.randn(BATCH, 3, generator=generator)


def train(
    model: nn.Module, rank: int, ranks: int, use_all: bool = True, autocast: bool = False
) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x, y = batch(step)
        part = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            prediction = model(x[part], use_all)
        nn.functional.mse_loss(prediction.float(), y[part]).backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def model() -> Model:
    torch.manual_seed(3)
    return Model()


def check_ddp(options: dict[str, Any], hook: str, tolerance: float, **how: bool) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    expected = train(model(), 0, 1, **how)
    # Small buckets: several operations are under way at once.
    ddp = DistributedDataParallel(model(), bucket_cap_mb=0.01, **options)
    if hook == "power_sgd":
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=32, start_powerSGD_iter=2
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif hook == "fp16":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "bf16":
        ddp.register_comm_hook(None, torch_floe.bf16_hook)
    actual = train(ddp, rank, ranks, **how)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance)
    # Whatever the rounding, every rank has the same bits.
    for parameter in actual:
        root = parameter.clone()
        dist.broadcast(root, 0)
        assert torch.equal(parameter, root)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("view", [False, True], ids=["copies", "gradient_as_bucket_view"])
def test_fp32(ranks: int, view: bool) -> None:
    run_ranks(ranks, check_ddp, {"gradient_as_bucket_view": view}, "", 1e-5)


@pytest.mark.parametrize("option", ["static_graph", "find_unused_parameters"])
def test_graph_options(option: str) -> None:
    run_ranks(2, lambda: check_ddp({option: True}, "", 1e-5, use_all=False))


@pytest.mark.quick
def test_autocast_bf16() -> None:
    run_ranks(2, lambda: check_ddp({"gradient_as_bucket_view": True}, "", 1e-2, autocast=True))


@pytest.mark.parametrize(
    ("hook", "tolerance"), [("fp16", 2e-3), ("bf16", 5e-3), ("power_sgd", 5e-3)]
)
def test_communication_hooks(hook: str, tolerance: float) -> None:
    run_ranks(2, check_ddp, {"gradient_as_bucket_view": True}, hook, tolerance)


def check_bf16_hook_rounds_once() -> None:
    rank = dist.get_rank()
    layer = nn.Linear(1, 1000, bias=False)
    ddp = DistributedDataParallel(layer)
    ddp.register_comm_hook(None, torch_floe.bf16_hook)
    # Gradients 2048, 8, 8 and 8: added in bfloat16 each 8 would round away, and leave 512. The sum
    # is 2072, its quarter 518, and that in bfloat16 520.
    ddp(torch.ones(1, 1)).mul(2048.0 if rank == 0 else 8.0).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.unique().tolist() == [520.0]


def test_bf16_hook_adds_in_float32() -> None:
    run_ranks(4, check_bf16_hook_rounds_once)


def check_no_sync() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole = model()
    ddp = DistributedDataParallel(copy.deepcopy(whole))
    for step in range(3):
        x, y = batch(step)
        nn.functional.mse_loss(whole(x), y).backward()
        part = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
        if step < 2:
            with ddp.no_sync():
                nn.functional.mse_loss(ddp(x[part]), y[part]).backward()
        else:
            nn.functional.mse_loss(ddp(x[part]), y[part]).backward()
    for a, e in zip(ddp.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(a.grad, e.grad)


def test_no_sync() -> None:
    run_ranks(3, check_no_sync)


def parameters_after_training() -> list[str]:
    import hashlib

    trained = train(DistributedDataParallel(model()), dist.get_rank(), dist.get_world_size())
    return [hashlib.sha256(p.numpy().tobytes()).hexdigest() for p in trained]


def test_two_ranks_train_to_the_bits_of_gloo() -> None:
    """a + b has one rounding, whoever adds it."""
    assert run_ranks(2, parameters_after_training) == run_ranks(
        2, parameters_after_training, backend="gloo"
    )
