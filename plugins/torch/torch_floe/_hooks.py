"""Communication hooks for DistributedDataParallel."""

import torch
import torch.distributed as dist


# PyTorch refuses a hook named bf16_compress_hook on CPUs, hence the name. It looks at the
# annotations, which must not be strings.
def bf16_hook(
    state: dist.ProcessGroup | None, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """Averages gradients as bfloat16, which halves the bytes sent.

    floe adds the ranks' values in float32, divides, and rounds once: the only losses are the two
    roundings to bfloat16, of each rank's gradient and of the average. `state` is the process
    group, None the default one:

        model.register_comm_hook(None, torch_floe.bf16_hook)
    """
    gradients = bucket.buffer()
    narrow = gradients.to(torch.bfloat16)
    work = dist.all_reduce(narrow, op=dist.ReduceOp.AVG, group=state, async_op=True)
    if narrow is gradients:
        return work.get_future().then(lambda future: future.value()[0])

    def widen(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        return gradients.copy_(future.value()[0])

    return work.get_future().then(widen)
