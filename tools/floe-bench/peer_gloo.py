"""The Gloo side of `floe-bench --peer gloo`: one process a rank, commanded through its stdin.

usage: peer_gloo.py RANK WORLD_SIZE tcp://ADDRESS:PORT

Says "ready" once connected. Each line of input is a JSON object with op, dtype, count (elements of
one rank's part) and iterations; the answer is {"us": [...], "errors": N} or {"error": "..."}.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist

MODULUS = 13  # sums stay exact in bfloat16 up to 20 ranks
Run = Callable[[torch.Tensor, torch.Tensor], object]


def values(rank: int, iteration: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    index = torch.arange(count, dtype=torch.int64)
    return ((index + 3 * rank + 5 * iteration) % MODULUS).to(dtype)


def summed(ranks: range, iteration: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    total = torch.zeros(count, dtype=torch.float64)
    for rank in ranks:
        total += values(rank, iteration, count, torch.float64)
    return total.to(dtype)


def exchange(send: torch.Tensor, recv: torch.Tensor, rank: int, size: int) -> None:
    received = dist.irecv(recv, (rank - 1) % size)
    dist.send(send, (rank + 1) % size)
    received.wait()


class Peer:
    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        # What runs, and what recv must hold afterwards. Gloo's all_reduce, reduce, broadcast work
        # in place, in `recv`.
        self.operations: dict[str, Run] = {
            "all_reduce": lambda send, recv: dist.all_reduce(recv),
            "reduce": lambda send, recv: dist.reduce(recv, 0),
            "broadcast": lambda send, recv: dist.broadcast(recv, 0),
            "all_gather": lambda send, recv: dist.all_gather_into_tensor(recv, send),
            "reduce_scatter": lambda send, recv: dist.reduce_scatter_tensor(recv, send),
            "sendrecv": lambda send, recv: exchange(send, recv, rank, size),
            "barrier": lambda send, recv: dist.barrier(),
        }

    def expected(
        self, op: str, iteration: int, count: int, dtype: torch.dtype
    ) -> torch.Tensor | None:
        everyone = range(self.size)
        if op == "all_reduce" or (op == "reduce" and self.rank == 0):
            return summed(everyone, iteration, count, dtype)
        if op == "broadcast":
            return values(0, iteration, count, dtype)
        if op == "all_gather":
            return torch.cat([values(rank, iteration, count, dtype) for rank in everyone])
        if op == "reduce_scatter":
            whole = summed(everyone, iteration, count * self.size, dtype)
            return whole[self.rank * count : (self.rank + 1) * count]
        if op == "sendrecv":
            return values((self.rank - 1) % self.size, iteration, count, dtype)
        return None

    def run(self, op: str, dtype_name: str, count: int, iterations: int) -> dict[str, object]:
        if op not in self.operations:
            raise ValueError(f"gloo: no {op}")
        dtype = getattr(torch, dtype_name)
        call = self.operations[op]
        sent = count * self.size if op == "reduce_scatter" else count
        recv = torch.zeros(count * self.size if op == "all_gather" else count, dtype=dtype)
        in_place = op in ("all_reduce", "reduce", "broadcast")
        send = recv if in_place else torch.zeros(sent, dtype=dtype)
        inputs = [values(self.rank, iteration, sent, dtype) for iteration in range(2)]

        times: list[float] = []
        errors = 0
        for iteration in range(iterations):
            send.copy_(inputs[iteration % 2])
            begin = time.perf_counter_ns()
            call(send, recv)
            times.append((time.perf_counter_ns() - begin) / 1000)
            if iteration in (0, iterations - 1):
                expected = self.expected(op, iteration % 2, count, dtype)
                if expected is not None:
                    errors += int((recv != expected).sum())
        return {"us": times, "errors": errors}


def main() -> None:
    rank, size, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    # Answers alone go to the pipe; whatever else prints goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=address, rank=rank, world_size=size, timeout=timedelta(seconds=120)
    )
    dist.barrier()
    print("ready", file=answers, flush=True)
    peer = Peer(rank, size)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = peer.run(
                command["op"], command["dtype"], command["count"], command["iterations"]
            )
        except (RuntimeError, ValueError, AttributeError) as problem:
            answer = {"error": f"gloo: {command['op']} of {command['dtype']}: {problem}"}
        print(json.dumps(answer), file=answers, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
