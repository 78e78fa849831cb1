"""floe's own memory under tensors and DDP's buckets."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from launch import run_ranks, run_scripts
from test_ddp import model, train

CPU = torch.device("cpu")


def is_floes(tensor: torch.Tensor) -> bool:
    """Whether the tensor lies in memory that peers can map."""
    address = tensor.data_ptr()
    with open("/proc/self/maps", encoding="ascii") as lines:
        for line in lines:
            first, last = (int(end, 16) for end in line.split(" ", 1)[0].split("-"))
            if first <= address < last:
                return "memfd:floe-arena" in line
    return False


def check_tensors() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    backend = dist.group.WORLD._get_backend(CPU)
    assert backend.supports_tensor_alloc(CPU)
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        for size in (0, 1, 100_003, 1 << 20):
            tensor = backend.allocate_tensor(size, dtype=dtype, device=CPU)
            assert (tensor.shape, tensor.dtype, tensor.device) == ((size,), dtype, CPU)
            assert not tensor.any()
            assert size == 0 or is_floes(tensor)
            tensor.fill_(rank + 1)
            view = tensor[1:]
            dist.all_reduce(view)
            del tensor  # the view keeps the memory
            assert view.numel() == 0 or view.unique().tolist() == [ranks * (ranks + 1) / 2]
    with pytest.raises(RuntimeError, match="not for"):
        backend.allocate_tensor(5, dtype=torch.float32, device=torch.device("meta"))
    # Given back, again and again: far more in all than a machine has.
    for _ in range(2000):
        backend.allocate_tensor(1 << 26, dtype=torch.float32, device=CPU)[0] = 1


def test_tensors() -> None:
    run_ranks(2, check_tensors)


def check_one_rank() -> None:
    # Nobody to share it with.
    assert not dist.group.WORLD._get_backend(CPU).supports_tensor_alloc(CPU)


def test_a_group_of_one_has_no_use_for_it() -> None:
    run_ranks(1, check_one_rank)


def check_buckets(in_memory: bool) -> None:
    """The gradients of the default options of DDP are views of its buckets, if asked for."""
    expected = train(model(), 0, 1)
    ddp = DistributedDataParallel(model(), bucket_cap_mb=0.01, gradient_as_bucket_view=True)
    actual = train(ddp, dist.get_rank(), dist.get_world_size())
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-5)
    gradients = [p.grad for p in ddp.parameters() if p.grad is not None]
    assert gradients
    assert [is_floes(g) for g in gradients] == [in_memory] * len(gradients)


@pytest.mark.parametrize("disabled", [None, "1"])
def test_buckets_of_ddp(disabled: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DDP_DISABLE_COMM_MEM", raising=False)
    if disabled:
        monkeypatch.setenv("DDP_DISABLE_COMM_MEM", disabled)
    run_ranks(2, check_buckets, disabled is None)


AT_EXIT = """
import atexit
# Before join(): so it runs after torch_floe's own exit handler.
atexit.register(lambda: print(f"late {kept[0].item()}"))

join(job, rank, ranks)
backend = dist.group.WORLD._get_backend(torch.device("cpu"))
tensor = backend.allocate_tensor(1 << 20, dtype=torch.float32, device=torch.device("cpu"))
dist.all_reduce(tensor.fill_(1))
kept = tensor
child = os.fork()
if child == 0:
    del tensor, kept  # has no such memory, and nothing to free
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
if DESTROY:
    dist.destroy_process_group()
print(f"sum {kept.unique().tolist()}")
"""


@pytest.mark.parametrize("destroy", [True, False])
def test_tensors_outlive_groups_and_the_exit(destroy: bool) -> None:
    for ended in run_scripts(2, f"DESTROY = {destroy}\n" + AT_EXIT):
        assert ended.code == 0, ended.output
        assert "sum [2.0]" in ended.output
        assert "late 2.0" in ended.output, ended.output
