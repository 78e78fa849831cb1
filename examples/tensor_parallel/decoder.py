"""A transformer whose every block is split over the ranks, decoding one token at a time.

Megatron's split (Shoeybi et al. 2019, section 3): a rank has some of the attention heads, with
their part of the key and value cache, and some of the hidden units of the MLP. What goes into a
half of a block is on all ranks; what comes out of it is a sum over them: one all_reduce per half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

AllReduce = Callable[[torch.Tensor], object]  # sums over all ranks, in place


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    context: int
    vocabulary: int = 256  # bytes

    @property
    def head_width(self) -> int:
        return self.width // self.heads


class Weights:
    """This rank's part of random weights, which are the same for any number of ranks."""

    def __init__(self, shape: Shape, rank: int, ranks: int, dtype: torch.dtype, seed: int) -> None:
        self.shape, self.heads = shape, shape.heads // ranks
        heads = slice(rank * self.heads, (rank + 1) * self.heads)
        units = 4 * shape.width // ranks
        hidden = slice(rank * units, (rank + 1) * units)
        source = torch.Generator().manual_seed(seed)

        def normal(*sizes: int, scale: float) -> torch.Tensor:
            return scale * torch.randn(*sizes, generator=source)

        def own(part: torch.Tensor, rows: int) -> torch.Tensor:
            return part.reshape(rows, -1).to(dtype).contiguous()

        width, deep = shape.width, (2 * shape.layers) ** -0.5
        self.embedding = normal(shape.vocabulary, width, scale=1.0).to(dtype)
        # Not the embedding once more: random weights would then say the last token for ever.
        self.output = normal(shape.vocabulary, width, scale=1.0).to(dtype)
        self.positions = normal(shape.context, width, scale=0.1).to(dtype)
        self.layers = []
        for _ in range(shape.layers):
            # Heads' queries, keys and values: split by outputs. Their sum: split by inputs.
            qkv = normal(3, shape.heads, shape.head_width, width, scale=width**-0.5)
            out = normal(width, shape.heads, shape.head_width, scale=deep * width**-0.5)
            up = normal(4 * width, width, scale=width**-0.5)
            down = normal(width, 4 * width, scale=deep * (4 * width) ** -0.5)
            self.layers.append(
                (
                    own(qkv[:, heads], 3 * self.heads * shape.head_width),
                    own(out[:, heads], width),
                    own(up[hidden], units),
                    own(down[:, hidden], width),
                )
            )


class Decoder:
    """One sequence: the keys and values of the tokens so far, of this rank's heads."""

    def __init__(self, weights: Weights, all_reduce: AllReduce) -> None:
        self.weights, self.all_reduce = weights, all_reduce
        shape, dtype = weights.shape, weights.embedding.dtype
        size = (shape.layers, 2, weights.heads, shape.context, shape.head_width)
        self.cache = torch.zeros(size, dtype=dtype)
        self.length = 0

    def _attend(self, x: torch.Tensor, qkv: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        new = x.shape[0]
        end = self.length + new
        projected = F.linear(x, qkv).view(new, 3, self.weights.heads, -1)
        q, k, v = projected.permute(1, 2, 0, 3)
        cache[0, :, self.length : end] = k
        cache[1, :, self.length : end] = v
        keys, values = cache[:, None, :, :end]
        # One new token sees all; several, at the start, see those before them.
        mixed = F.scaled_dot_product_attention(q[None], keys, values, is_causal=new > 1)
        return mixed[0].transpose(0, 1).reshape(new, -1)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Takes the next tokens, of which only the first may be several, and returns what follows:
        a logit per token of the vocabulary, the same on all ranks."""
        weights, norm = self.weights, (self.weights.shape.width,)
        end = self.length + tokens.numel()
        x = weights.embedding[tokens] + weights.positions[self.length : end]
        for (qkv, out, up, down), cache in zip(weights.layers, self.cache, strict=True):
            half = F.linear(self._attend(F.layer_norm(x, norm), qkv, cache), out)
            self.all_reduce(half)
            x = x + half
            half = F.linear(F.gelu(F.linear(F.layer_norm(x, norm), up)), down)
            self.all_reduce(half)
            x = x + half
        self.length = end
        return F.linear(F.layer_norm(x[-1], norm), weights.output).float()
