"""Wrong arguments: a clear error before anything is sent, and the group stays usable.

And ranks that disagree: an error on all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from launch import run_ranks

Op = dist.ReduceOp


def still_usable() -> None:
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [dist.get_world_size()] * 3


def wrong_calls() -> list[tuple[str, Callable[[], object]]]:
    """What the message must say, and the call."""
    ranks = dist.get_world_size()
    t = torch.ones(4, 4)
    sparse = t.to_sparse()
    expanded = torch.ones(4, 1).expand(4, 2)
    conjugate = torch.ones(3, dtype=torch.complex64).conj()
    f8 = torch.ones(4).to(torch.float8_e4m3fnuz)
    c64 = torch.ones(3, dtype=torch.complex64)
    premul = dist._make_nccl_premul_sum(0.5)
    lists = [torch.empty(4, 4) for _ in range(ranks)]
    uneven = [torch.empty(5 + r) for r in range(ranks)]
    meta = torch.ones(2, device="meta")
    return [
        ("SUM and AVG only", lambda: dist.all_reduce(sparse, Op.MAX)),
        (
            "floe:all_reduce: a tensor is sparse",
            lambda: backend_call("allreduce_coalesced", [sparse]),
        ),
        ("floe:broadcast: a tensor is sparse", lambda: backend_call("broadcast", [sparse])),
        (r"share memory \(sizes \[4, 2\], strides \[1, 0\]", lambda: dist.all_reduce(expanded)),
        (
            "floe:recv: elements of an output share",
            lambda: dist.recv(expanded, 1 - dist.get_rank()),
        ),
        ("share memory", lambda: dist.all_gather_into_tensor(expanded, torch.ones(8 // ranks))),
        ("conjugat", lambda: dist.broadcast(conjugate, 0)),
        ("is on meta: floe takes CPU tensors", lambda: backend_call("allreduce", [meta])),
        ("no ReduceOp.BAND of Float", lambda: dist.all_reduce(torch.ones(2), Op.BAND)),
        ("no ReduceOp.BOR of BFloat16", lambda: dist.all_reduce(torch.ones(2).bfloat16(), Op.BOR)),
        ("no ReduceOp.BXOR of Double", lambda: dist.reduce(torch.ones(2).double(), 0, Op.BXOR)),
        ("no ReduceOp.PREMUL_SUM of Int", lambda: dist.all_reduce(torch.ones(2).int(), premul)),
        ("no ReduceOp.MAX of ComplexFloat", lambda: reduce_past_checks(c64, Op.MAX)),
        ("no ReduceOp.PREMUL_SUM of ComplexFloat", lambda: reduce_past_checks(c64, premul)),
        ("no ReduceOp.AVG of Int", lambda: dist.all_reduce(torch.ones(2).int(), Op.AVG)),
        ("no ReduceOp.AVG of Bool", lambda: dist.all_reduce(torch.ones(2).bool(), Op.AVG)),
        ("can't reduce Float8_e4m3fnuz", lambda: dist.all_reduce(f8)),
        ("can't reduce Float8_e4m3fnuz", lambda: dist.all_reduce_coalesced([f8, f8])),
        ("are needed", lambda: dist.all_gather(uneven, torch.ones(4))),
        ("are needed", lambda: dist.all_gather_into_tensor(torch.empty(9), torch.ones(4))),
        ("are needed", lambda: dist.reduce_scatter_tensor(torch.empty(9), torch.ones(4))),
        ("needed, one per rank", lambda: dist.reduce_scatter(t.clone(), lists[:-1])),
        (
            "different types",
            lambda: dist.all_gather_into_tensor(torch.empty(4 * ranks).int(), torch.ones(4)),
        ),
        ("overlap", lambda: dist.all_gather_into_tensor(s := torch.ones(4 * ranks), s[1:5])),
        ("without a start", lambda: backend_call("_end_coalescing")),
    ]


def backend_call(name: str, *args: object) -> None:
    """Past PyTorch's own checks."""
    getattr(dist.group.WORLD._get_backend(torch.device("cpu")), name)(*args)


def reduce_past_checks(tensor: torch.Tensor, op: object) -> None:
    options = dist.AllreduceOptions()
    options.reduceOp = op
    backend_call("allreduce", [tensor], options)


def check_wrong_calls() -> None:
    for message, call in wrong_calls():
        with pytest.raises(RuntimeError, match=message):
            call()
        still_usable()


@pytest.mark.quick
def test_wrong_arguments_are_refused_and_harmless() -> None:
    run_ranks(2, check_wrong_calls)


def check_roots() -> None:
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    options = dist.BroadcastOptions()
    for root in (-1, 2, 1 << 40):
        options.rootRank = root
        with pytest.raises(RuntimeError, match="root is"):
            backend.broadcast([torch.ones(1)], options)
    for peer in (-1, 2):
        with pytest.raises(RuntimeError, match="source is"):
            backend.recv([torch.ones(1)], peer, 0)
    with pytest.raises(RuntimeError, match="dest is"):
        backend.send([torch.ones(1)], dist.get_rank(), 0)
    with pytest.raises(RuntimeError, match="tag is -3"):
        backend.send([torch.ones(1)], 1 - dist.get_rank(), -3)
    with pytest.raises(RuntimeError, match="takes one tensor, got 2"):
        backend.allreduce([torch.ones(1), torch.ones(1)])
    still_usable()


def test_ranks_and_tags_are_checked() -> None:
    run_ranks(2, check_roots)


DISAGREEMENTS: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "type": (
        lambda: dist.all_reduce(torch.ones(4)),
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.float64)),
    ),
    "same size of type": (
        lambda: dist.all_reduce(torch.ones(4).int()),
        lambda: dist.all_reduce(torch.ones(4)),
    ),
    "count": (
        lambda: dist.all_reduce(torch.ones(4)),
        lambda: dist.all_reduce(torch.ones(5)),
    ),
    "large count": (
        lambda: dist.all_reduce(torch.ones(4_000_000)),
        lambda: dist.all_reduce(torch.ones(1)),
    ),
    "op": (
        lambda: dist.all_reduce(torch.ones(4)),
        lambda: dist.all_reduce(torch.ones(4), Op.MAX),
    ),
    "type of one byte": (
        lambda: dist.all_reduce(torch.ones(4).bool()),
        lambda: dist.all_reduce(torch.ones(4).byte()),
    ),
    "premul-sum": (
        lambda: dist.all_reduce(torch.ones(4), dist._make_nccl_premul_sum(2.0)),
        lambda: dist.all_reduce(torch.ones(4)),
    ),
    "root": (
        lambda: dist.broadcast(torch.ones(4), 0),
        lambda: dist.broadcast(torch.ones(4), 1),
    ),
    "kind": (
        lambda: dist.all_reduce(torch.ones(4)),
        lambda: dist.barrier(),
    ),
}


def disagree(name: str) -> str:
    first, other = DISAGREEMENTS[name]

    def call() -> None:
        (other if dist.get_rank() == 1 else first)()
        dist.barrier()  # a root may send and be done: the error is then of what comes next

    with pytest.raises(dist.DistBackendError) as raised:
        call()
    with pytest.raises(dist.DistBackendError):
        dist.barrier()  # the group is of no use any more
    return str(raised.value)


@pytest.mark.parametrize("name", DISAGREEMENTS)
def test_ranks_that_disagree_all_get_an_error(name: str) -> None:
    for message in run_ranks(3, disagree, name):
        assert "FLOE_ERR_MISMATCH" in message
        assert "rank 1" in message


def check_sizes_of_messages() -> str:
    if dist.get_rank() == 0:
        dist.send(torch.ones(2), 1, tag=1)
        dist.recv(torch.empty(1), 1)
        return ""
    with pytest.raises(RuntimeError, match=r"rank 0 sent 8 bytes, and the tensor .* has 12"):
        dist.recv(torch.empty(3), 0, tag=1)
    dist.send(torch.ones(1), 0)
    return ""


def test_a_shorter_message_is_an_error() -> None:
    run_ranks(2, check_sizes_of_messages)


def wait_in_vain() -> str:
    group = dist.new_group(timeout=timedelta(milliseconds=500))
    if dist.get_rank() == 1:
        dist.recv(torch.empty(1), 0)
        return ""
    with pytest.raises(dist.DistBackendError, match=" Timed out ") as raised:
        dist.all_reduce(torch.ones(3), group=group)
    dist.send(torch.ones(1), 1)
    return str(raised.value)


def test_a_timeout_names_the_missing_rank() -> None:
    message = run_ranks(2, wait_in_vain)[0]
    assert "rank 1" in message
    assert "floe:all_reduce" in message


def aborted() -> str:
    rank = dist.get_rank()
    if rank == 0:
        dist.recv(torch.empty(1), 1)
        dist.group.WORLD._get_backend(torch.device("cpu")).abort()
    else:
        dist.send(torch.ones(1), 0) if rank == 1 else None
    with pytest.raises(dist.DistBackendError) as raised:
        dist.all_reduce(torch.ones(3))
    return str(raised.value)


def test_abort_ends_operations_on_all_ranks() -> None:
    for message in run_ranks(3, aborted):
        assert "FLOE_ERR_ABORTED" in message


def after_shutdown() -> None:
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend.shutdown()
    backend.shutdown()
    with pytest.raises(RuntimeError, match="has been shut down"):
        dist.all_reduce(torch.ones(3))


def test_a_group_that_was_shut_down_says_so() -> None:
    run_ranks(2, after_shutdown)


def missing_rank() -> str:
    """Rank 1 never creates the group."""
    if dist.get_rank() == 1:
        return ""
    store = dist.HashStore()
    from torch_floe._backend import _create

    options = torch._C._distributed_c10d._DistributedBackendOptions()
    options.store, options.group_rank, options.group_size = store, 0, 2
    options.timeout, options.group_id = timedelta(milliseconds=500), "a b"
    options.global_ranks_in_group = [0, 1]
    with pytest.raises(dist.DistBackendError) as raised:
        _create(options, None)
    return str(raised.value)


def test_a_group_that_a_rank_does_not_join_names_it() -> None:
    message = run_ranks(2, missing_rank)[0]
    assert "'group-a_b'" in message
    assert "FLOE_ERR_STORE" in message
    assert "1" in message.split("FLOE_ERR")[0]


class LateStore(dist.Store):
    """Has what it is asked for first when the time is up, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, bytes] = {}
        self.waits: list[timedelta] = []
        self.checked: list[str] = []

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes:
        return self.values[key]

    def check(self, keys: list[str]) -> bool:
        self.checked += keys
        return all(key in self.values for key in keys)

    def deleteKey(self, key: str) -> bool:
        return self.values.pop(key, None) is not None

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        self.waits.append(timeout)
        time.sleep(timeout.total_seconds() + 0.1)
        if len(self.waits) > 1:
            raise RuntimeError("no such key")
        self.values[keys[0]] = b"late"


def wait_past_the_end() -> list[float]:
    from torch_floe._backend import _load

    _load()
    store = LateStore()
    group = dist.ProcessGroup(store, 0, 3)
    with pytest.raises(dist.DistBackendError, match="rank 2 of 3 did not arrive"):
        torch.ops.floe._attach(group.boxed(), 500, "late", [])
    assert any(key.endswith("/2") for key in store.checked)
    return [wait.total_seconds() for wait in store.waits]


def test_no_wait_of_zero_reaches_the_store() -> None:
    """That would be for ever. Rank 1's card comes when time is up: none is left for rank 2's."""
    waits = run_ranks(1, wait_past_the_end)[0]
    assert waits
    assert min(waits) > 0
