"""Registers the backend, and loads its native library when it is first used."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from torch_floe import _accelerate, _flight, _gloo, _levels

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend, _DistributedBackendOptions

_LIBRARIES = Path(__file__).parent / "lib"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


@functools.cache
def _load() -> None:
    from torch_floe._build import TORCH_VERSION

    if _minor(TORCH_VERSION) != _minor(torch.__version__):
        raise RuntimeError(
            f"torch_floe was built for torch {_minor(TORCH_VERSION)} and this is torch"
            f" {torch.__version__}: install torch_floe again (pip install --no-build-isolation,"
            f" from its sources), or torch {_minor(TORCH_VERSION)}"
        )
    try:
        torch.ops.load_library(_LIBRARIES / "libfloe_torch.so")
    except OSError as error:
        raise RuntimeError(f"torch_floe's library can't be loaded: {error}") from error
    _levels.install()
    _flight.install()
    # DDP then has its buckets in floe's memory, which needs no staging. By default it does not.
    os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    # While Python is whole: callbacks of futures that are under way need its lock.
    atexit.register(torch.ops.floe._shutdown)


def _group_name(options: _DistributedBackendOptions) -> str:
    """The name in messages: 'world', or the group's own in floe's alphabet and length."""
    if not options.global_ranks_in_group:
        return "world"
    return "group-" + re.sub(r"[^!-~]", "_", options.group_id)[:57]


def _create(options: _DistributedBackendOptions, _backend_options: Any) -> Backend:
    _load()
    carrier = dist.ProcessGroup(options.store, options.group_rank, options.group_size)
    milliseconds = int(options.timeout.total_seconds() * 1000)
    members = list(options.global_ranks_in_group)
    torch.ops.floe._attach(carrier.boxed(), milliseconds, _group_name(options), members)
    return carrier._get_backend(torch.device("cpu"))


def _load_gloo_transport() -> None:
    """With GLOO_DEVICE_TRANSPORT=FLOE, backend "gloo" runs over floe: no LD_PRELOAD is needed."""
    preloaded = "libfloe_gloo" in os.environ.get("LD_PRELOAD", "")
    if os.environ.get("GLOO_DEVICE_TRANSPORT") == "FLOE" and not preloaded:
        ctypes.CDLL(str(_LIBRARIES / "libfloe_gloo.so"))


def _replace_gloo_if_asked() -> None:
    value = os.environ.get("TORCH_FLOE_REPLACE_GLOO", "0")
    if value == "1":
        _gloo.replace_gloo()
    elif value not in ("", "0"):
        raise ValueError(f"TORCH_FLOE_REPLACE_GLOO is {value!r}: it must be 1 or 0")


def register() -> None:
    """Makes "floe" a backend that init_process_group knows; again is harmless."""
    if dist.is_available() and not hasattr(dist.Backend, "FLOE"):
        dist.Backend.register_backend("floe", _create, extended_api=True, devices=["cpu"])
        _gloo.install()
        _accelerate.install(_gloo.ranks_on_floe)
        _load_gloo_transport()
        _replace_gloo_if_asked()
