"""Text that every machine has: sources and documentation of the running Python's library."""

import hashlib
import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

VOCABULARY = 256
SUFFIXES = (".py", ".txt", ".rst")
# Third-party packages and tests differ between machines; code-page tables are not text.
SKIPPED_FOLDERS = {
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idle_test",
    "encodings",
    "__pycache__",
}
HELD_OUT_EVERY = 16  # one file in 16 is never trained on
LEAST_BYTES = 1 << 20


@dataclass(frozen=True)
class Corpus:
    train: np.ndarray
    held_out: np.ndarray
    sha256: str  # of both parts: ranks on several hosts, and a resumed run, must read the same text


def library_files(root: Path) -> list[Path]:
    """All text files of the library in an order that depends on their names alone."""
    files = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in SKIPPED_FOLDERS]
        files += [Path(folder, name) for name in names if name.endswith(SUFFIXES)]
    return sorted(files, key=lambda path: path.relative_to(root).as_posix())


def load_corpus(root: Path | None = None) -> Corpus:
    root = root or Path(sysconfig.get_path("stdlib"))
    texts = [path.read_bytes() for path in library_files(root) if path.is_file()]
    held_out = b"\n".join(texts[::HELD_OUT_EVERY])
    train = b"\n".join(text for i, text in enumerate(texts) if i % HELD_OUT_EVERY)
    if len(train) < LEAST_BYTES:
        raise RuntimeError(
            f"{root} has {len(train)} bytes of text, need at least {LEAST_BYTES}: "
            "install Python's standard library with its sources"
        )
    digest = hashlib.sha256(train + b"\0" + held_out).hexdigest()
    return Corpus(np.frombuffer(train, np.uint8), np.frombuffer(held_out, np.uint8), digest)


def windows(
    text: np.ndarray, starts: np.ndarray, context: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets (the next byte), each len(starts) x context."""
    rows = torch.from_numpy(text[starts[:, None] + np.arange(context + 1)].astype(np.int64))
    return rows[:, :-1], rows[:, 1:]


def training_batch(
    text: np.ndarray, seed: int, step: int, batch: int, context: int, rank: int, ranks: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's slice of the global batch of `step`.

    The global batch depends on (seed, step, batch) alone, so any number of ranks sees the same
    samples and a resumed run goes on where the first one stopped.
    """
    starts = np.random.default_rng((seed, step)).integers(0, len(text) - context, size=batch)
    share = batch // ranks
    return windows(text, starts[rank * share : (rank + 1) * share], context)


def held_out_batch(
    text: np.ndarray, count: int, context: int, rank: int, ranks: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's part of `count` windows spread evenly over the held-out text; may be empty."""
    starts = np.linspace(0, len(text) - context - 1, count).astype(np.int64)
    return windows(text, starts[rank::ranks], context)
