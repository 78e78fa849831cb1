"""torch.ops.floe.all_reduce_: all_reduce without a work, for inference."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from launch import run_ranks, run_scripts

RANKS = 2


def all_reduce_(tensor: torch.Tensor, *op: str) -> torch.Tensor:
    torch.ops.floe.all_reduce_(tensor, dist.group.WORLD.group_name, *op)
    return tensor


def _reduces() -> dict[str, list]:
    rank = dist.get_rank()
    values = torch.tensor([2, 3], dtype=torch.int32) + rank
    found = {
        op: all_reduce_(values.clone(), op).tolist() for op in ("sum", "product", "min", "max")
    }
    found |= {op: all_reduce_(values.clone(), op).tolist() for op in ("band", "bor", "bxor")}
    found["avg"] = all_reduce_(values.to(torch.bfloat16), "avg").tolist()
    wide = torch.arange(6.0).reshape(3, 2) + rank
    all_reduce_(wide[:, 1])
    found["strided"] = wide.flatten().tolist()
    found["empty"] = all_reduce_(torch.empty(0)).tolist()
    before = dist.group.WORLD._get_backend(torch.device("cpu"))._get_sequence_number_for_group()
    work = dist.all_reduce(values, async_op=True)
    all_reduce_(values.clone())  # in order with collectives that have a work
    work.wait()
    found["order"] = values.tolist()
    after = dist.group.WORLD._get_backend(torch.device("cpu"))._get_sequence_number_for_group()
    found["counted"] = [after - before]
    return found


def test_reduces_in_place() -> None:
    expected = {"sum": [5, 7], "product": [6, 12], "min": [2, 3], "max": [3, 4]}
    expected |= {"band": [2, 0], "bor": [3, 7], "bxor": [1, 7], "avg": [2.5, 3.5]}
    expected |= {"empty": [], "order": [5, 7], "counted": [2]}
    for rank, found in enumerate(run_ranks(RANKS, _reduces)):
        strided = found.pop("strided")
        assert strided == [0.0 + rank, 3.0, 2.0 + rank, 7.0, 4.0 + rank, 11.0]
        assert found == expected


def _refusals() -> list[str]:
    name = dist.group.WORLD.group_name
    gloo = dist.new_group(backend="gloo").group_name
    operator = torch.ops.floe.all_reduce_
    one = torch.ones(1)
    complaints = []
    for arguments in (
        (one, name, "mean"),
        (one, gloo),
        (one, "nowhere"),
        (torch.ones(1, requires_grad=True), name),
        (torch.ones(2, 1).expand(2, 2), name),
        (torch.ones(1, dtype=torch.complex64), name, "max"),
        (torch.ones(1 + dist.get_rank()), name),  # the last: it ends the group
    ):
        with pytest.raises(RuntimeError) as refused:
            operator(*arguments)
        complaints.append(str(refused.value).splitlines()[0])
    return complaints


def test_refuses_what_it_cannot_do() -> None:
    for complaints in run_ranks(RANKS, _refusals):
        expected = (
            "op is 'mean': it must be sum, avg,",
            "has gloo for CPU tensors: make it with backend floe",
            "nowhere",
            "requires a gradient",
            "share memory",
            "MIN and MAX need an order",
            "float32 x 2",
        )
        for complaint, part in zip(complaints, expected, strict=True):
            assert part in complaint


class Halves(torch.nn.Module):
    """A product whose inner dimension is split over the ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.group = dist.group.WORLD.group_name
        self.weight = torch.nn.Parameter(torch.arange(16.0).reshape(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.weight
        torch.ops.floe.all_reduce_(y, self.group)
        return y.relu()


def _compiles(backend: str) -> bool:
    module = Halves()
    x = torch.arange(4.0) - dist.get_rank()
    with torch.no_grad():
        compiled = torch.compile(module, fullgraph=True, backend=backend)
        return all(torch.equal(compiled(x + i), module(x + i)) for i in range(3))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_torch_compile_takes_it(backend: str) -> None:
    assert run_ranks(RANKS, _compiles, backend) == [True] * RANKS


DETAIL = """
join(job, rank, ranks)
t = torch.ones(3)
torch.ops.floe.all_reduce_(t, dist.group.WORLD.group_name)
print("sum", t.tolist())
dist.destroy_process_group()
"""


def test_works_with_detailed_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    for ended in run_scripts(RANKS, DETAIL):
        assert ended.code == 0, ended.output
        assert "sum [2.0, 2.0, 2.0]" in ended.output
