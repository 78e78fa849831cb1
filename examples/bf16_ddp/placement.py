"""Where the ranks come from, a launcher's environment or processes started here; their CPUs."""

import gc
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.queues import SimpleQueue

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

DEFAULT_PORT = "29500"
USAGE = 2  # exit code

# What each launcher calls rank, size, local rank and local size; the first row that is set wins.
LAUNCHERS = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "Intel MPI or MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "Open MPI": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "Slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
}


class UsageError(Exception):
    """The user can put it right: shown as one line, without a traceback."""


@dataclass(frozen=True)
class Placement:
    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    port: int | None = None  # of the store that the starting process serves; None: env://


def integer(name: str) -> int:
    try:
        return int(os.environ[name])
    except ValueError:
        raise UsageError(f"{name}={os.environ[name]!r} is not a number") from None


def placement_from_environment() -> Placement | None:
    """The launcher's placement, exported as env:// wants it; None without a launcher."""
    for launcher, (rank_name, size_name, local_name, local_size_name) in LAUNCHERS.items():
        if rank_name not in os.environ and size_name not in os.environ:
            continue
        for name in (rank_name, size_name):
            if name not in os.environ:
                raise UsageError(f"{launcher}'s environment is incomplete: {name} is missing")
        rank, ranks = integer(rank_name), integer(size_name)
        if not 0 <= rank < ranks:
            raise UsageError(f"{rank_name}={rank} is not below {size_name}={ranks}")
        # Without local values (a bare RANK and WORLD_SIZE) each rank takes its host to be its own.
        local_rank = integer(local_name) if local_name in os.environ else 0
        local_ranks = integer(local_size_name) if local_size_name in os.environ else 1
        if "MASTER_ADDR" not in os.environ and ranks not in (1, local_ranks):
            raise UsageError("MASTER_ADDR is missing: set it to the host of rank 0")
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks))
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", DEFAULT_PORT)
        return Placement(rank, ranks, local_rank, local_ranks)
    return None


def use_own_cpus(placement: Placement, threads: int | None) -> None:
    """Gives each local rank its slice of the allowed CPUs, and as many threads to compute with.

    With fewer CPUs than ranks nothing is pinned: the kernel shares them out better.
    """
    cpus = sorted(os.sched_getaffinity(0))
    share = len(cpus) // placement.local_ranks
    if placement.local_ranks > 1 and share >= 1:
        first = placement.local_rank * share
        os.sched_setaffinity(0, cpus[first : first + share])
    torch.set_num_threads(threads or max(1, share))


def require_backend(name: str) -> None:
    if not dist.is_available() or not dist.is_backend_available(name):
        hint = {
            "floe": "install it with `pip install --no-build-isolation .` in floe's repository",
            "gloo": "use a PyTorch that was built with it",
        }[name]
        raise UsageError(f"this PyTorch ({torch.__version__}) has no backend '{name}': {hint}")


def connect(placement: Placement, backend: str, timeout: timedelta) -> None:
    if placement.port is None:
        dist.init_process_group(backend, timeout=timeout)
        return
    store = dist.TCPStore("127.0.0.1", placement.port, is_master=False, timeout=timeout)
    dist.init_process_group(
        backend, store=store, rank=placement.rank, world_size=placement.ranks, timeout=timeout
    )


def run(work: Callable[[Placement], None], placement: Placement) -> str | None:
    """Runs `work` as this rank. Returns what the user has to put right, if anything."""
    problem = None
    try:
        work(placement)
    except UsageError as error:
        problem = str(error)
    # DDP is in a reference cycle and holds the group: once it is gone, destroying the group joins
    # its threads. Gloo's, left alone, take the GIL while Python finalises and abort the process.
    gc.collect()
    if dist.is_initialized():
        dist.destroy_process_group()
    return problem


def run_as_launched(work: Callable[[Placement], None], placement: Placement) -> int:
    """Runs `work` as the rank that a launcher started, and returns an exit code."""
    problem = run(work, placement)
    if problem and placement.local_rank == 0:  # once per host, which may lack what others have
        print(f"error: {problem}", file=sys.stderr)
    return USAGE if problem else 0


def _local_rank(
    rank: int, ranks: int, port: int, work: Callable[[Placement], None], problems: SimpleQueue
) -> None:
    if problem := run(work, Placement(rank, ranks, rank, ranks, port)):
        problems.put(problem)
        sys.exit(USAGE)


def start(work: Callable[[Placement], None], ranks: int | None) -> int:
    """Runs `work` as a launcher's rank, or in `ranks` processes here; returns an exit code."""
    try:
        placement = None if ranks else placement_from_environment()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    if placement:
        return run_as_launched(work, placement)
    return start_local_ranks(ranks or 1, work)


def start_local_ranks(ranks: int, work: Callable[[Placement], None]) -> int:
    """Runs `work` in `ranks` processes on this host and returns an exit code."""
    # The store lives here, on a port the kernel picks: no rank has to guess a free one.
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    problems = mp.get_context("spawn").SimpleQueue()
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)
    try:
        mp.spawn(_local_rank, args=(ranks, store.port, work, problems), nprocs=ranks)
    except mp.ProcessExitedException as error:
        if not problems.empty():
            print(f"error: {problems.get()}", file=sys.stderr)
            return USAGE
        print(f"rank {error.error_index}: {error.msg}", file=sys.stderr)
        return 1
    except mp.ProcessRaisedException as error:
        print(error.msg, file=sys.stderr)
        return 1
    return 0
