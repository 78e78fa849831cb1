"""How DDP averages gradients here, and what that costs."""

import statistics
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch.futures import Future


def average_fp32(bucket: dist.GradBucket) -> Future[torch.Tensor]:
    work = dist.all_reduce(bucket.buffer(), op=dist.ReduceOp.AVG, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def average_bf16(bucket: dist.GradBucket) -> Future[torch.Tensor]:
    """Half the bytes. The backend sums in its own way: Gloo rounds to bf16 after every addition."""
    gradients = bucket.buffer()
    sent = gradients.to(torch.bfloat16)
    work = dist.all_reduce(sent, op=dist.ReduceOp.AVG, async_op=True)
    return work.get_future().then(lambda done: gradients.copy_(done.value()[0]))


@dataclass
class Exchange:
    """State of the comm hook."""

    backend: str
    dtype: str  # "fp32" or "bf16"
    left_out: bool = (
        False  # this backward pass exchanges nothing: its gradients are for timing alone
    )


def exchange_gradients(state: Exchange, bucket: dist.GradBucket) -> Future[torch.Tensor]:
    if state.left_out:
        done: Future[torch.Tensor] = Future()
        done.set_result(bucket.buffer())
        return done
    if state.dtype == "fp32":
        return average_fp32(bucket)
    if state.backend == "floe":
        from torch_floe import bf16_hook

        return bf16_hook(None, bucket)
    return average_bf16(bucket)


@dataclass
class CommunicationShare:
    """The part of a step's time that goes away when its gradients are not exchanged.

    Every few steps the forward and backward pass of the step's own batch is run once more before
    it, with the exchange left out and its gradients thrown away. (with - without) / step counts
    all that communication costs: the wait that computing does not hide, the CPU time that
    communication takes from it, and waiting for a slower rank. What overlaps for free is not
    counted.
    """

    shares: list[float] = field(default_factory=list)

    DEFINITION = "step time that goes away when the gradient exchange is left out"

    def add(self, without: float, with_exchange: float, whole_step: float) -> None:
        self.shares.append((with_exchange - without) / whole_step)

    def over_ranks(self) -> dict[str, float] | None:
        """Median and mean over the pairs of steps, averaged over the ranks. Collective."""
        if not self.shares:
            return None
        both = torch.tensor([statistics.median(self.shares), statistics.fmean(self.shares)])
        dist.all_reduce(both, op=dist.ReduceOp.AVG)
        return {"median": both[0].item(), "mean": both[1].item(), "pairs": len(self.shares)}
