"""floe in the place of Gloo: under Gloo's name, but never as PyTorch's type for it."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

_replaced = False


def replace_gloo() -> None:
    """From now on process groups of Gloo run over floe for CPU tensors.

    Where scripts can't name a backend of their own choice, as under the Hugging Face Trainer,
    accelerate and Lightning. `TORCH_FLOE_REPLACE_GLOO=1` does the same, and needs no import. The
    name remains: `dist.get_backend()` answers "gloo". Groups that exist stay as they are.
    """
    global _replaced
    _replaced = True


def _is_floe(backend: Any) -> bool:
    """Whether the backend is floe's, in the wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL or not."""
    if isinstance(backend, c10d._ProcessGroupWrapper):
        backend = backend.wrapped_pg
    return backend is not None and backend.name() == "floe"


def _runs_on_floe(group: dist.ProcessGroup) -> bool:
    cpu = torch.device("cpu")
    return cpu in group._device_types and _is_floe(group._get_backend(cpu))


def ranks_on_floe() -> int:
    """Of the default process group, if it is floe's for CPU tensors; else 0."""
    world = dist.group.WORLD
    return dist.get_world_size() if world is not None and _runs_on_floe(world) else 0


def install() -> None:
    """Makes the places where PyTorch names Gloo's type ask what the backend is.

    DDP's logger casts a backend registered as Gloo's to ProcessGroupGloo: with another it crashes.
    PyTorch does so for every group on CPUs that dist.shrink_group makes.
    """
    gloo, custom = dist.ProcessGroup.BackendType.GLOO, dist.ProcessGroup.BackendType.CUSTOM
    register = dist.ProcessGroup._register_backend
    set_default = dist.ProcessGroup._set_default_backend
    configure = c10d.BackendConfig.__init__

    @functools.wraps(register)
    def register_backend(group: Any, device: torch.device, kind: Any, backend: Any) -> None:
        floe = _is_floe(backend)
        register(group, device, custom if kind == gloo and floe else kind, backend)
        # Of "cpu:floe" PyTorch makes no backend the default, which DDP asks for memory.
        if floe and group.name() == "undefined":
            set_default(group, custom)

    @functools.wraps(set_default)
    def set_default_backend(group: Any, kind: Any) -> None:
        # A new group has no backend yet.
        floe = kind == gloo and (_replaced or _runs_on_floe(group))
        set_default(group, custom if floe else kind)

    @functools.wraps(configure)
    def configure_backends(config: c10d.BackendConfig, backend: Any) -> None:
        configure(config, backend)
        devices = config.device_backend_map
        if not _replaced or devices.get("cpu") != dist.Backend.GLOO:
            return
        devices["cpu"] = dist.Backend("floe")
        # "gloo" alone stands for its GPU tensors, too.
        if devices.get("cuda") == dist.Backend.GLOO and not torch.cuda.is_available():
            del devices["cuda"]

    dist.ProcessGroup._register_backend = register_backend
    dist.ProcessGroup._set_default_backend = set_default_backend
    c10d.BackendConfig.__init__ = configure_backends
