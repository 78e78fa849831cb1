"""What PyTorch adds to floe's all_reduce, beside Gloo, a backend that does nothing, and others.

    torchrun --nproc_per_node 2 tools/floe-bench/torch_latency.py [--sizes 8,1024] [--cold]

Blocks of calls of each alternate in one run, a slice of the CPUs a rank; the times, in us, are of
all ranks:

    floe         dist.all_reduce over floe
    floe op      torch.ops.floe.all_reduce_, which makes no work
    gloo         dist.all_reduce over Gloo
    null         dist.all_reduce over PyTorch's fake backend: what PyTorch itself takes
    dispatcher   torch.ops.floe.all_reduce_ of a tensor without data: what the dispatcher takes
    C call       floe_all_reduce through ctypes, less what ctypes takes for a call of 0 elements
    vllm, deepspeed   their own operators, where `tools/dev peers` has put them into build-peers

The last lines are what floe's own code in PyTorch takes: floe less null and C call, and the
operator less dispatcher and C call, of the p50 of blocks that follow each other.

--cold is closer to a model's decoding: each call follows a pass over memory that empties the caches
of code and data, and lasts from when the last rank calls until the last one has returned.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from ctypes import byref, c_void_p
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from peer_torch import DeepSpeed, Vllm, unlink_shared_memory
from torch.testing._internal.distributed import fake_pg

ROOT = Path(__file__).parents[2]
WARM_UP, BLOCK = 20, 200
COLD_BLOCK, SWEPT = 20, 16 << 20  # bytes: several times a core's own caches
FLOE_TYPES = {"float32": 0, "bfloat16": 3}
TIMEOUT = timedelta(seconds=60)
Call = Callable[[], object]
assert fake_pg  # the import has registered the backend "fake"


class CCall:
    """floe_all_reduce on a communicator of its own, from environment variables."""

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT / "examples" / "python_ctypes"))
        import floe  # its libfloe.so.0 is the one that torch_floe has loaded

        self.floe, self.comm = floe, c_void_p()
        context = c_void_p()
        floe.floe_context_create(None, byref(context))
        floe.floe_comm_create_from_env(context, None, byref(self.comm))
        # A call costs ctypes no more than it must.
        self.all_reduce = floe.floe_all_reduce
        self.all_reduce.errcheck = lambda status, function, arguments: status

    def bound(self, tensor: torch.Tensor, count: int) -> Call:
        kind = FLOE_TYPES[str(tensor.dtype).removeprefix("torch.")]
        data, sum_ = c_void_p(tensor.data_ptr()), self.floe.FLOE_SUM
        arguments = self.comm, self.floe.FLOE_IN_PLACE, data, count, kind, sum_, None

        def call(keep: torch.Tensor = tensor) -> int:
            return self.all_reduce(*arguments)

        return call


class Contenders:
    """By name, what makes a call of a tensor."""

    def __init__(self, peers: Path) -> None:
        rank, size = dist.get_rank(), dist.get_world_size()
        world = dist.group.WORLD.group_name
        operator = torch.ops.floe.all_reduce_.default
        gloo, null = dist.new_group(backend="gloo"), dist.new_group(backend="fake")
        c_call = CCall()
        self.makers: dict[str, Callable[[torch.Tensor], Call]] = {
            "floe": lambda t: lambda: dist.all_reduce(t),
            "null": lambda t: lambda: dist.all_reduce(t, group=null),
            "floe op": lambda t: lambda: operator(t, world),
            "dispatcher": lambda t: (lambda m: lambda: operator(m, world))(t.to("meta")),
            "C call": lambda t: c_call.bound(t, t.numel()),
            "ctypes": lambda t: c_call.bound(t, 0),
            "gloo": lambda t: lambda: dist.all_reduce(t, group=gloo),
        }
        for name, kind in (("vllm", Vllm), ("deepspeed", DeepSpeed)):
            if (peers / name / "version").exists():
                self.add_peer(name, kind(peers / name, rank, size, os.environ["MASTER_PORT"]))
                dist.barrier()
                unlink_shared_memory(os.environ["MASTER_PORT"], rank)

    def add_peer(self, name: str, peer: Vllm | DeepSpeed) -> None:
        run = peer.in_place["all_reduce"]
        self.makers[name] = lambda t: lambda: run(t, t)


def timed(call: Call, iterations: int, sweep: Call | None) -> list[tuple[int, int]]:
    """When each call began and ended, in ns of the host's clock."""
    now, times = time.perf_counter_ns, []
    for _ in range(WARM_UP):
        call()
    for _ in range(iterations):
        if sweep:
            sweep()
        begin = now()
        call()
        times.append((begin, now()))
    return times


def durations(of_ranks: list[list[tuple[int, int]]], cold: bool, clock_ns: int) -> list[float]:
    """In us, of a block's calls: of each rank, or, cold, from the last in to the last out."""
    if cold:
        calls = [tuple(map(max, zip(*call, strict=True))) for call in zip(*of_ranks, strict=True)]
    else:
        calls = [call for rank in of_ranks for call in rank]
    return [(end - begin - clock_ns) / 1000 for begin, end in calls]


def measure(
    contenders: Contenders, count: int, dtype: torch.dtype, rounds: int, cold: bool
) -> dict[str, list[list[float]]]:
    """By contender, the times of each block."""
    clock_ns = min(-time.perf_counter_ns() + time.perf_counter_ns() for _ in range(1000))
    swept = torch.zeros(SWEPT // 4)
    sweep, iterations = (swept.sum, COLD_BLOCK) if cold else (None, BLOCK)
    calls = {
        name: make(torch.zeros(count, dtype=dtype)) for name, make in contenders.makers.items()
    }
    blocks: dict[str, list[list[tuple[int, int]]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            dist.barrier()
            blocks[name].append(timed(call, iterations, sweep))
    everyone: list[dict] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(everyone, blocks)
    return {
        name: [
            durations(list(of_ranks), cold, clock_ns)
            for of_ranks in zip(*(rank[name] for rank in everyone), strict=True)
        ]
        for name in blocks
    }


def report(blocks: dict[str, list[list[float]]]) -> dict:
    medians = {name: [statistics.median(block) for block in blocks[name]] for name in blocks}
    ctypes = statistics.median(medians["ctypes"])
    rows = {}
    for name in [name for name in blocks if name != "ctypes"]:
        times = sorted(t for block in blocks[name] for t in block)
        values = statistics.median(times), statistics.fmean(times), times[len(times) * 99 // 100]
        less = ctypes if name == "C call" else 0
        rows[name] = {k: v - less for k, v in zip(("p50", "mean", "p99"), values, strict=True)}
    for whole, part in (("floe", "null"), ("floe op", "dispatcher")):
        columns = zip(*(medians[n] for n in (whole, part, "C call", "ctypes")), strict=True)
        own = statistics.median(w - p - (c - nothing) for w, p, c, nothing in columns)
        rows[f"{whole} - {part} - C call"] = {"p50": own}
    return rows


def use_own_cpus() -> int:
    """How many they are."""
    cpus = sorted(os.sched_getaffinity(0))
    ranks, rank = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["LOCAL_RANK"])
    share = len(cpus) // ranks
    if share:
        os.sched_setaffinity(0, cpus[rank * share : (rank + 1) * share])
    return max(1, share)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="8,1024,16384,262144", help="bytes, separated by commas")
    parser.add_argument("--dtype", choices=list(FLOE_TYPES), default="float32")
    parser.add_argument(
        "--rounds", type=int, default=10, help=f"of {BLOCK} calls of each, cold {COLD_BLOCK} (10)"
    )
    parser.add_argument("--cold", action="store_true", help="empty the caches before each call")
    parser.add_argument("--peers", type=Path, default=ROOT / "build-peers", help="(build-peers)")
    parser.add_argument("--json", type=Path, help="file to write the times to")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)

    use_own_cpus()
    torch.set_num_threads(1)
    dist.init_process_group("floe", timeout=TIMEOUT)
    contenders = Contenders(options.peers)
    tables = {}
    for size in map(int, options.sizes.split(",")):
        count = max(1, size // dtype.itemsize)
        tables[size] = report(measure(contenders, count, dtype, options.rounds, options.cold))
        if dist.get_rank() != 0:
            continue
        print(f"\n{size} B, {count} x {options.dtype}, {dist.get_world_size()} ranks, us")
        print(f"{'':32}{'p50':>10}{'mean':>10}{'p99':>10}")
        for name, row in tables[size].items():
            print(f"{name:32}" + "".join(f"{value:10.2f}" for value in row.values()))
    if options.json and dist.get_rank() == 0:
        options.json.write_text(json.dumps(tables, indent=1) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
