"""Runs functions and scripts as the ranks of a job, with a hard limit on the time they take."""

from __future__ import annotations

import atexit
import faulthandler
import functools
import itertools
import multiprocessing
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.distributed as dist

GROUP_TIMEOUT = timedelta(seconds=60)


_jobs = itertools.count()


_SERVER = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


@functools.cache
def _server_port() -> int:
    """The port of the store of all jobs: ranks are its clients, and no port is taken twice.

    It is a process of its own: ranks are forked from this one, and the locks that a thread of a
    server held at that moment, libc's among them, would never be released in the child.
    """
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,  # its end is the server's
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)
    assert server.stdout
    return int(server.stdout.readline())


def _new_job() -> str:
    return f"{_server_port()}/{next(_jobs)}"


def join(job: str, rank: int, ranks: int, **options: Any) -> None:
    """Makes this process a rank of `job`."""
    port = int(job.split("/")[0])
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=GROUP_TIMEOUT)
    options = {"backend": "floe", "timeout": GROUP_TIMEOUT, **options}
    dist.init_process_group(
        store=dist.PrefixStore(job, store), rank=rank, world_size=ranks, **options
    )


def _rank_main(
    pipe: Connection,
    job: str,
    rank: int,
    ranks: int,
    backend: str,
    timeout: float,
    function: Callable[..., Any],
    args: tuple,
) -> None:
    torch.set_num_threads(1)
    faulthandler.dump_traceback_later(timeout, exit=False)  # where it hangs
    try:
        join(job, rank, ranks, backend=backend)
        value = function(*args)
        dist.destroy_process_group()
        pipe.send((True, value))
    except BaseException:
        pipe.send((False, traceback.format_exc()))


class RankFailed(AssertionError):
    pass


def run_ranks(
    ranks: int,
    function: Callable[..., Any],
    *args: Any,
    timeout: float = 120,
    killed: tuple[int, ...] = (),
    backend: str = "floe",
) -> list[Any]:
    """Returns function(*args) of each rank of a process group: plain values, no tensors.

    The ranks are forked from this process, which has torch loaded and does not compute with it.
    Those in `killed` are expected to die, and give None.
    """
    job = _new_job()
    context = multiprocessing.get_context("fork")
    pipes, processes = [], []
    for rank in range(ranks):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=_rank_main, args=(theirs, job, rank, ranks, backend, timeout - 5, function, args)
        )
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        return _collect(pipes, processes, timeout, killed)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _collect(
    pipes: list[Connection], processes: list, timeout: float, killed: tuple[int, ...]
) -> list[Any]:
    deadline = time.monotonic() + timeout
    values: list[Any] = [None] * len(pipes)
    failures = []
    left = dict(zip(pipes, range(len(pipes)), strict=True))
    while left:
        ready = wait(list(left), max(0.0, deadline - time.monotonic()))
        if not ready:
            raise RankFailed(f"ranks {sorted(left.values())} are not done after {timeout} s")
        for pipe in ready:
            rank = left.pop(pipe)
            try:
                good, value = pipe.recv()
            except EOFError:
                good, value = rank in killed, None
                if not good:
                    processes[rank].join()
                    value = f"it ended without a word, exit code {processes[rank].exitcode}"
            if good:
                values[rank] = value
            else:
                failures.append(f"---- rank {rank}: {value}")
                # The others wait for it in vain.
                deadline = min(deadline, time.monotonic() + 15)
    if failures:
        raise RankFailed("\n" + "\n".join(failures))
    return values


@dataclass
class Ended:
    code: int
    output: str  # stdout and stderr


def run_scripts(ranks: int, script: str, timeout: float = 120) -> list[Ended]:
    """Runs `script` to its end in fresh interpreters, with join(), job, rank and ranks defined."""
    job = _new_job()
    prologue = (
        "import os, sys, time, threading, torch, torch.distributed as dist\n"
        "from launch import join\n"
        "rank, ranks, job = int(os.environ['RANK']), int(os.environ['WORLD_SIZE']), sys.argv[1]\n"
    )
    processes = []
    for rank in range(ranks):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(
                [os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]
            ),
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", prologue + script, job],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return _end_all(processes, timeout)


def run_torchrun(ranks: int, script: str, *options: str, timeout: float = 120) -> Ended:
    """Runs the file `script` under torchrun with an address of its own choice."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    process = subprocess.Popen(
        [*command, "--nproc_per_node", str(ranks), *options, script],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return _end_all([process], timeout)[0]


def _end_all(processes: list[subprocess.Popen[str]], timeout: float) -> list[Ended]:
    deadline = time.monotonic() + timeout
    ended = []
    try:
        for process in processes:
            output, _ = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
            ended.append(Ended(process.returncode, output))
    finally:
        for process in processes:
            process.kill()
    return ended
