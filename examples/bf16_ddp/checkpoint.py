"""Checkpoints: written whole or not at all, and resumed only by a run of the same configuration."""

import io
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from placement import UsageError


def save(path: Path, state: dict[str, Any]) -> None:
    """Replaces `path`: who reads it, or is killed here, finds the old or the new state whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def exists(path: Path) -> bool:
    """As rank 0 sees it."""
    there = torch.tensor([path.exists()])
    dist.broadcast(there, src=0)
    return bool(there)


def read_everywhere(path: Path) -> bytes:
    """The file's bytes as rank 0 sees them: the other hosts need no copy of it."""
    content, problem = b"", ""
    if dist.get_rank() == 0:
        try:
            content = path.read_bytes()
        except OSError as error:
            problem = str(error)
    size = torch.tensor([-1 if problem else len(content)])
    dist.broadcast(size, src=0)
    if size.item() < 0:
        raise UsageError(f"cannot resume: {problem}")
    data = torch.zeros(int(size.item()), dtype=torch.uint8)
    if content:
        data.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    dist.broadcast(data, src=0)
    return data.numpy().tobytes()


def load(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    try:
        state = torch.load(io.BytesIO(read_everywhere(path)), weights_only=True)
        saved = state["config"]
    except UsageError:
        raise
    except Exception as error:  # torch.load raises whatever its parser met
        raise UsageError(f"cannot resume: {path} is not a checkpoint of this program") from error
    for name in config:
        if saved.get(name) != config[name]:
            raise UsageError(
                f"cannot resume {path}: it was written with {name}={saved.get(name)}, this run has "
                f"{name}={config[name]}"
            )
    return state
