"""A rank of test_messages.py: messages of random sizes and tags, in random order, each one checked.

usage: messages_rank.py BACKEND SEED
"""

import random
import sys

import torch
import torch.distributed as dist

ROUNDS = 20
MOST_TO_A_PEER = 6
TAGS = 2  # few, so that messages of one tag are many


def draw_size(rng: random.Random) -> int:
    """Of int32: some fit into one packet, some into several, some are announced."""
    return rng.randrange(1, rng.choice([3, 20_000, 400_000, 1_800_000]))


def content(elements: int, key: int) -> torch.Tensor:
    return torch.arange(elements, dtype=torch.int32) * 7 + key


def main() -> None:
    torch.set_num_threads(1)
    backend, seed = sys.argv[1], int(sys.argv[2])
    dist.init_process_group(backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    common = random.Random(seed)  # draws the same on all ranks
    own = random.Random(seed * ranks + rank)
    for number in range(ROUNDS):
        messages = [
            (source, to, common.randrange(TAGS), draw_size(common), common.randrange(1 << 20))
            for source in range(ranks)
            for to in range(ranks)
            if source != to
            for _ in range(common.randrange(MOST_TO_A_PEER + 1))
        ]
        common.shuffle(messages)
        # In the common order among themselves, and at random among each other.
        sends = [m for m in messages if m[0] == rank]
        receives = [m for m in messages if m[1] == rank]
        works, sent, arrived = [], [], []
        while sends or receives:
            if sends and (not receives or own.random() < number / ROUNDS):
                _, to, tag, elements, key = sends.pop(0)
                sent.append(content(elements, key))
                works.append(dist.isend(sent[-1], to, tag=tag))
            else:
                source, _, tag, elements, key = receives.pop(0)
                buffer = torch.zeros(elements, dtype=torch.int32)
                works.append(dist.irecv(buffer, source, tag=tag))
                arrived.append((buffer, source, tag, key))
        own.shuffle(works)
        for work in works:
            work.wait()
        for buffer, source, tag, key in arrived:
            assert torch.equal(buffer, content(len(buffer), key)), (
                f"round {number}: {len(buffer)} elements from rank {source} with tag {tag}"
            )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
