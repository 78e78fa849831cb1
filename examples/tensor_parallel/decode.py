"""Decodes with a transformer that is split over the ranks, over floe and over Gloo side by side.

    torchrun --nproc_per_node 2 decode.py                       ranks of torchrun, MPI or Slurm
    python decode.py --ranks 2 --backend floe gloo none         ranks started here, on this host

Each backend decodes the same tokens in the same run, a few at a time in turn. `none` leaves out the
communication: its tokens are nonsense, its time is what the computing alone takes. `vllm` is vLLM's
own operator, where `tools/dev peers vllm` has put it.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from decoder import AllReduce, Decoder, Shape, Weights

# What the two examples share: where the ranks come from.
sys.path.append(str(Path(__file__).parents[1] / "bf16_ddp"))
from placement import (
    Placement,
    UsageError,
    connect,
    require_backend,
    start,
    use_own_cpus,
)

ROOT = Path(__file__).parents[2]
TIMEOUT = timedelta(seconds=120)
TURN = 8  # tokens
WARM_UP = 8  # tokens of each backend, which are not counted
BACKENDS = ("floe", "gloo", "vllm", "none")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--backend", nargs="+", choices=BACKENDS, default=["floe", "gloo"], help="(floe gloo)")
    add("--ranks", type=int, help="start this many ranks here; default: the launcher's, or 1")
    add("--threads", type=int, help="of each rank; default: its share of this host's CPUs")
    add("--layers", type=int, default=8, help="(8)")
    add("--width", type=int, default=512, help="(512)")
    add("--heads", type=int, default=8, help="(8)")
    add("--tokens", type=int, default=200, help="to decode (200)")
    add("--prompt", default="All happy families are alike;", help="(Anna Karenina's first words)")
    add("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="(bfloat16)")
    add("--seed", type=int, default=1, help="of the weights (1)")
    add("--peers", type=Path, default=ROOT / "build-peers", help="where vllm is (build-peers)")
    add("--json", type=Path, help="file to write the results to")
    options = parser.parse_args()
    if min(options.layers, options.width, options.heads, options.tokens, options.ranks or 1) < 1:
        parser.error("--layers, --width, --heads, --tokens and --ranks must be more than 0")
    if options.width % options.heads:
        parser.error(f"--width {options.width} is not a multiple of --heads {options.heads}")
    if not options.prompt:
        parser.error("--prompt is empty")
    return options


def all_reduce_of_vllm(folder: Path) -> AllReduce:
    sys.path.append(str(ROOT / "tools" / "floe-bench"))
    from peer_torch import Vllm, unlink_shared_memory

    key = [str(os.getpid())]
    dist.broadcast_object_list(key)
    rank = dist.get_rank()
    run = Vllm(folder, rank, dist.get_world_size(), key[0]).in_place["all_reduce"]
    dist.barrier()
    unlink_shared_memory(key[0], rank)
    return lambda tensor: run(tensor, tensor)


def all_reduce_over(backend: str, peers: Path) -> AllReduce:
    if backend == "none":
        return lambda tensor: None
    if backend == "vllm":
        return all_reduce_of_vllm(peers / "vllm")
    group = dist.group.WORLD
    if backend != dist.get_backend():
        group = dist.new_group(backend=backend, timeout=TIMEOUT)
    if backend == "floe":
        operator, name = torch.ops.floe.all_reduce_.default, group.group_name
        return lambda tensor: operator(tensor, name)
    return lambda tensor: dist.all_reduce(tensor, group=group)


class Run:
    """A backend's decoding of the sequence: greedy, so that all make the same tokens."""

    def __init__(self, weights: Weights, all_reduce: AllReduce, prompt: list[int]) -> None:
        self.decoder = Decoder(weights, all_reduce)
        self.logits = self.decoder.step(torch.tensor(prompt))
        self.tokens: list[int] = []
        self.seconds: list[float] = []

    def decode(self, tokens: int) -> None:
        for _ in range(tokens):
            begin = time.perf_counter()
            token = self.logits.argmax()
            self.logits = self.decoder.step(token[None])
            self.seconds.append(time.perf_counter() - begin)
            self.tokens.append(int(token))

    def result(self) -> dict:
        milliseconds = sorted(1000 * seconds for seconds in self.seconds[WARM_UP:])
        return {
            "p50_ms": statistics.median(milliseconds),
            "mean_ms": statistics.fmean(milliseconds),
            "p99_ms": milliseconds[len(milliseconds) * 99 // 100],
            "tokens_per_second": 1000 / statistics.fmean(milliseconds),
            "tokens": self.tokens,
        }


def compare(runs: dict[str, Run]) -> str | None:
    """What is wrong with the results, if anything: of two ranks a + b is b + a, to the bit."""
    real = [name for name in runs if name != "none"]
    for name in real[1:]:
        one, other = runs[real[0]], runs[name]
        if dist.get_world_size() <= 2:
            if one.tokens != other.tokens or not torch.equal(one.logits, other.logits):
                return f"{real[0]} and {name} differ in their tokens or in the last one's logits"
        elif one.tokens[0] != other.tokens[0]:
            return f"{real[0]} and {name} differ in the first token"
    everyone: list = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, {name: runs[name].tokens for name in real})
    return None if all(one == everyone[0] for one in everyone) else "the ranks' tokens differ"


def show(shape: Shape, options: argparse.Namespace, results: dict[str, dict]) -> None:
    size = shape.width * getattr(torch, options.dtype).itemsize
    print(
        f"{dist.get_world_size()} ranks, {shape.layers} layers of {shape.width} {options.dtype};"
        f" per token {2 * shape.layers} all_reduces of {size} B"
    )
    print(f"{'':6}{'ms per token: p50':>20}{'mean':>8}{'p99':>8}{'tokens/s':>12}")
    for name, row in results.items():
        print(f"{name:6}{row['p50_ms']:20.3f}{row['mean_ms']:8.3f}{row['p99_ms']:8.3f}", end="")
        print(f"{row['tokens_per_second']:12.1f}")


@torch.inference_mode()
def decode(options: argparse.Namespace, placement: Placement) -> None:
    ranks = placement.ranks
    if options.heads % ranks:
        raise UsageError(f"--heads {options.heads} can't be divided over {ranks} ranks")
    backends = list(dict.fromkeys(options.backend))
    for backend in backends:
        if backend in ("floe", "gloo"):
            require_backend(backend)
    if "vllm" in backends and not (options.peers / "vllm" / "version").exists():
        raise UsageError(f"vllm is not in {options.peers}: `tools/dev peers vllm` puts it there")
    use_own_cpus(placement, options.threads)
    connect(placement, "gloo" if "floe" not in backends else "floe", TIMEOUT)

    prompt = list(options.prompt.encode())
    context = len(prompt) + WARM_UP + options.tokens
    shape = Shape(options.layers, options.width, options.heads, context)
    weights = Weights(shape, placement.rank, ranks, getattr(torch, options.dtype), options.seed)
    runs = {
        backend: Run(weights, all_reduce_over(backend, options.peers), prompt)
        for backend in backends
    }
    while (left := context - len(prompt) - len(runs[backends[0]].tokens)) > 0:
        for run in runs.values():
            dist.barrier()
            run.decode(min(TURN, left))
    problem = compare(runs)
    if problem:
        raise RuntimeError(problem)
    if placement.rank == 0:
        results = {name: run.result() for name, run in runs.items()}
        show(shape, options, results)
        if options.json:
            options.json.write_text(json.dumps(results) + "\n")


def main() -> int:
    options = parse_options()
    return start(functools.partial(decode, options), options.ranks)


if __name__ == "__main__":
    sys.exit(main())
