"""How well DistributedDataParallel hides floe's all_reduce behind the backward pass.

    taskset -c 0,1 torchrun --nproc_per_node 2 tools/floe-bench/ddp_overlap.py [--model bert]

A step over floe beside one of the same model, batch and buckets whose all_reduce costs nothing: its
hook returns the bucket as it is. The two alternate, and each ends with a barrier of all ranks:
waiting for the slower rank is part of both. What floe adds is the median over the pairs of steps of
one less the other, as a part of the latter; beside it the interval of 95 % for that median.

    trainer   the model of examples/bf16_ddp, with its batch
    bert      an encoder as wide as BERT-base: 768, 12 heads; of 4 layers unless told otherwise

Products of matrices are bf16 (autocast), parameters fp32; --buckets bf16 sends gradients as bf16
through torch_floe.bf16_hook. A rank's CPUs are its slice of those the program may run on.
"""

import argparse
import json
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_latency import use_own_cpus

import torch_floe

sys.path.append(str(Path(__file__).parents[2] / "examples" / "bf16_ddp"))
from model import ByteGPT

WARM_UP = 3
VOCABULARY = {"trainer": 256, "bert": 8192}


class Encoder(nn.Module):
    def __init__(self, layers: int, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY["bert"], width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY["bert"])

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.layers(self.tokens(inputs)))
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def make_model(options: argparse.Namespace) -> nn.Module:
    torch.manual_seed(1)
    if options.model == "bert":
        return Encoder(options.layers or 4)
    return ByteGPT(VOCABULARY["trainer"], options.layers or 4, width=256, heads=4, context=256)


# PyTorch looks at its annotations: no "from __future__ import annotations" here.
def all_reduce_nothing(buckets: str, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    gradients = bucket.buffer()
    if buckets == "bf16":
        gradients.copy_(gradients.to(torch.bfloat16))
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(gradients)
    return done


class Contender:
    """The model in DDP, and its optimizer."""

    def __init__(self, options: argparse.Namespace, null: bool) -> None:
        self.ddp = DistributedDataParallel(make_model(options), gradient_as_bucket_view=True)
        if null:
            self.ddp.register_comm_hook(options.buckets, all_reduce_nothing)
        elif options.buckets == "bf16":
            self.ddp.register_comm_hook(None, torch_floe.bf16_hook)
        self.optimizer = torch.optim.SGD(self.ddp.parameters(), lr=1e-3)
        self.seconds: list[float] = []

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        dist.barrier()
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            loss = self.ddp(inputs, targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        dist.barrier()
        self.seconds.append(time.perf_counter() - begin)


def report(floe: list[float], null: list[float]) -> dict[str, float]:
    added = sorted((f - n) / n for f, n in zip(floe, null, strict=True))
    # Ranks of the order statistics that enclose the median with 95 %.
    reach = 0.98 * len(added) ** 0.5
    low = max(0, int(len(added) / 2 - reach))
    high = min(len(added) - 1, int(len(added) / 2 + reach))
    return {
        "null_ms": 1000 * statistics.median(null),
        "floe_ms": 1000 * statistics.median(floe),
        "added": statistics.median(added),
        "added_low": added[low],
        "added_high": added[high],
        "pairs": len(added),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=list(VOCABULARY), default="trainer")
    parser.add_argument("--layers", type=int, help="(4)")
    parser.add_argument("--batch", type=int, default=4, help="sequences of a rank (4)")
    parser.add_argument("--length", type=int, default=128, help="of a sequence (128)")
    parser.add_argument("--buckets", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--seconds", type=float, default=20, help="to measure for (20)")
    parser.add_argument("--json", type=Path, help="file to write the result to")
    options = parser.parse_args()

    threads = use_own_cpus()
    torch.set_num_threads(threads)
    dist.init_process_group("floe", timeout=timedelta(seconds=120))
    contenders = {"floe": Contender(options, null=False), "null": Contender(options, null=True)}
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(rank)
    shape = (options.batch, options.length)
    data = torch.randint(VOCABULARY[options.model], (2, *shape), generator=generator)

    for _ in range(WARM_UP):
        for contender in contenders.values():
            contender.step(*data)
    for contender in contenders.values():
        contender.seconds.clear()
    time_is_up = torch.zeros(1)
    end = time.monotonic() + options.seconds
    pair = 0
    while not time_is_up.item():
        # Whoever is second finds other caches: each in turn.
        for name in ("floe", "null") if pair % 2 else ("null", "floe"):
            contenders[name].step(*data)
        pair += 1
        time_is_up.fill_(time.monotonic() > end)
        dist.all_reduce(time_is_up, op=dist.ReduceOp.MAX)

    if rank == 0:
        row = report(contenders["floe"].seconds, contenders["null"].seconds)
        print(
            f"{options.model}, {options.buckets} buckets, {dist.get_world_size()} ranks of"
            f" {threads} threads: {row['null_ms']:.1f} ms a step; floe adds {row['added']:+.1%}"
            f" ({row['added_low']:+.1%} to {row['added_high']:+.1%}, {row['pairs']} pairs)"
        )
        if options.json:
            options.json.write_text(json.dumps(row) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
