"""Trains a small byte-level GPT in BF16 on CPUs with DistributedDataParallel.

    torchrun --nproc_per_node 2 train.py --seconds 60       ranks of torchrun, MPI or Slurm
    python train.py --ranks 2 --seconds 60 --plot loss.png  ranks started here, on this host
    torchrun --max-restarts 3 --nproc_per_node 2 train.py --checkpoint state.pt
                                                            goes on from state.pt if a rank is lost

Weights, optimizer state and, by default, gradients are fp32; matrix products are bf16 (autocast).
The same options, text, ranks and threads give the same parameters in every run, bit for bit; on two
ranks over either backend, since a + b is b + a. The summary's parameters_sha256 shows it.
"""

import argparse
import functools
import hashlib
import json
import os
import statistics
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import checkpoint
from data import VOCABULARY, Corpus, held_out_batch, load_corpus, training_batch
from gradients import CommunicationShare, Exchange, exchange_gradients
from model import ByteGPT
from options import RUN_OPTIONS, parse_options
from placement import (
    Placement,
    UsageError,
    connect,
    require_backend,
    start,
    use_own_cpus,
)
from report import Progress, plot, require_matplotlib

AGREE_EVERY = 10  # steps between two reports; also when the ranks agree whether to stop
WARM_UP_STEPS = 5  # of a process, not counted as speed: DDP arranges buckets, oneDNN kernels
LR_WARM_UP, LR_DECAY_FROM = 50, 500
HELD_OUT_WINDOWS = 64
TIMEOUT = timedelta(seconds=300)


def learning_rate(step: int, peak: float) -> float:
    """Linear warm-up, then 1/sqrt: of the step alone, so a run can be resumed and prolonged."""
    return peak * min(1.0, (step + 1) / LR_WARM_UP, (LR_DECAY_FROM / (step + 1)) ** 0.5)


def parameters_sha256(model: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()


def same_on_all_ranks(sha256: str) -> bool:
    number = int(sha256[:15], 16)
    lowest, highest = torch.tensor([number]), torch.tensor([number])
    dist.all_reduce(lowest, op=dist.ReduceOp.MIN)
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    return lowest.item() == highest.item()


class Trainer:
    def __init__(self, options: argparse.Namespace, placement: Placement, corpus: Corpus) -> None:
        self.options, self.placement, self.corpus = options, placement, corpus
        torch.manual_seed(options.seed)
        self.model = ByteGPT(
            VOCABULARY, options.layers, options.width, options.heads, options.context
        )
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=options.lr, betas=(0.9, 0.95), weight_decay=0.1, fused=True
        )
        self.step = 0
        self.history: list[dict[str, Any]] = []
        self.config = {name: getattr(options, name) for name in RUN_OPTIONS} | {
            "text": corpus.sha256
        }
        if options.resume or self.starts_again():
            self.restore()
        self.exchange = Exchange(options.backend, options.grad_dtype)
        self.ddp = DistributedDataParallel(self.model, gradient_as_bucket_view=True)
        self.ddp.register_comm_hook(self.exchange, exchange_gradients)

        self.share = CommunicationShare()
        self.step_seconds: list[float] = []
        self.loss_sum, self.loss_steps = torch.zeros((), dtype=torch.float64), 0

    def starts_again(self) -> bool:
        """Whether torchrun starts ranks anew when one is lost, and an attempt left a checkpoint."""
        elastic = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0
        path = self.options.checkpoint
        return elastic and path is not None and checkpoint.exists(path)

    def restore(self) -> None:
        state = checkpoint.load(self.options.checkpoint, self.config)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        self.step, self.history = state["step"], state["history"]
        if self.options.steps is not None and self.step >= self.options.steps:
            raise UsageError(
                f"nothing to do: {self.options.checkpoint} is at step {self.step} already"
            )

    def save(self) -> None:
        if self.options.checkpoint and self.placement.rank == 0:
            state = {
                "config": self.config,
                "step": self.step,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "rng": torch.get_rng_state(),
                "history": self.history,
            }
            checkpoint.save(self.options.checkpoint, state)

    def forward_backward(
        self, inputs: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, float]:
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.ddp(inputs, targets)
        loss.backward()
        return loss.detach(), time.perf_counter() - start

    def time_without_exchange(self, inputs: torch.Tensor, targets: torch.Tensor) -> float:
        self.exchange.left_out = True
        _, seconds = self.forward_backward(inputs, targets)
        self.exchange.left_out = False
        self.optimizer.zero_grad()
        dist.barrier()  # the step it is compared with starts on all ranks at once, as any other
        return seconds

    def train_step(self) -> None:
        options, placement = self.options, self.placement
        batch = training_batch(
            self.corpus.train,
            options.seed,
            self.step,
            options.batch,
            options.context,
            placement.rank,
            placement.ranks,
        )
        warm = len(self.step_seconds) >= WARM_UP_STEPS
        probe = warm and options.probe_every and self.step % options.probe_every == 0
        without = self.time_without_exchange(*batch) if probe else 0.0

        start = time.perf_counter()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.step, options.lr)
        loss, with_exchange = self.forward_backward(*batch)
        self.optimizer.step()
        self.optimizer.zero_grad()
        seconds = time.perf_counter() - start

        self.step_seconds.append(seconds)
        if probe:
            self.share.add(without, with_exchange, seconds)
        self.loss_sum += loss
        self.loss_steps += 1
        self.step += 1

    @torch.no_grad()
    def held_out_loss(self) -> float:
        placement = self.placement
        inputs, targets = held_out_batch(
            self.corpus.held_out,
            HELD_OUT_WINDOWS,
            self.options.context,
            placement.rank,
            placement.ranks,
        )
        total = torch.zeros(2, dtype=torch.float64)
        if len(inputs):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                total[0] = self.model(inputs, targets, reduction="sum")
            total[1] = targets.numel()
        dist.all_reduce(total)
        return (total[0] / total[1]).item()

    def agree(self, wants_to_stop: bool) -> tuple[float, bool]:
        """The loss since the last call, over all ranks, and whether rank 0 wants to stop."""
        mine = [
            self.loss_sum.item() / self.loss_steps,
            float(wants_to_stop and self.placement.rank == 0),
        ]
        total = torch.tensor(mine, dtype=torch.float64)
        dist.all_reduce(total)
        self.loss_sum.zero_()
        self.loss_steps = 0
        return total[0].item() / self.placement.ranks, total[1].item() > 0

    def counted_steps(self) -> list[float]:
        return self.step_seconds[WARM_UP_STEPS:] or self.step_seconds

    def tokens_per_second(self) -> float:
        return self.options.batch * self.options.context / statistics.fmean(self.counted_steps())

    def fit(self) -> None:
        options = self.options
        progress = Progress(
            options.backend, self.step, options.steps, options.seconds, self.placement.rank == 0
        )
        deadline = time.monotonic() + options.seconds if options.seconds else None
        done = False
        while not done:
            self.train_step()
            progress.advance()
            last = self.step == options.steps
            if last or self.step % AGREE_EVERY == 0 or self.step % options.eval_every == 0:
                loss, stop = self.agree(deadline is not None and time.monotonic() > deadline)
                done = last or stop
                held_out = (
                    self.held_out_loss() if done or self.step % options.eval_every == 0 else None
                )
                self.history.append({"step": self.step, "loss": loss, "held_out_loss": held_out})
                progress.losses(self.step, loss, held_out, self.tokens_per_second())
            if done or self.step % options.checkpoint_every == 0:
                self.save()
        progress.close()

    def summary(self) -> dict[str, Any]:
        sha256 = parameters_sha256(self.model)
        if not same_on_all_ranks(sha256):
            raise RuntimeError("the ranks ended with different parameters")
        return {
            "backend": self.options.backend,
            "ranks": self.placement.ranks,
            "threads_per_rank": torch.get_num_threads(),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "grad_dtype": self.options.grad_dtype,
            "step": self.step,
            "loss": self.history[-1]["loss"],
            "held_out_loss": self.history[-1]["held_out_loss"],
            "tokens_per_second": self.tokens_per_second(),
            "counted_steps": len(self.counted_steps()),
            "communication_share": self.share.over_ranks(),
            "parameters_sha256": sha256,
            "history": self.history,
        }


def train(options: argparse.Namespace, placement: Placement) -> None:
    if options.batch % placement.ranks:
        raise UsageError(f"--batch {options.batch} can't be divided over {placement.ranks} ranks")
    if options.plot:
        require_matplotlib()
    require_backend(options.backend)
    use_own_cpus(placement, options.threads)
    corpus = load_corpus()
    connect(placement, options.backend, TIMEOUT)
    if not same_on_all_ranks(corpus.sha256):
        raise UsageError(
            "the ranks' Python libraries differ, and so does the text they would train on"
        )

    trainer = Trainer(options, placement, corpus)
    trainer.fit()
    summary = trainer.summary()
    if placement.rank == 0:
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(summary, indent=1) + "\n")
        if options.plot:
            plot(options.plot, {options.backend: trainer.history})
        print(json.dumps({name: value for name, value in summary.items() if name != "history"}))
        if share := summary["communication_share"]:
            print(
                f"communication: {share['median']:.1%} of a step, mean {share['mean']:.1%} "
                f"({share['pairs']} pairs of steps): {CommunicationShare.DEFINITION}",
                file=sys.stderr,
            )


def main() -> int:
    options = parse_options(__doc__)
    return start(functools.partial(train, options), options.ranks)


if __name__ == "__main__":
    sys.exit(main())
