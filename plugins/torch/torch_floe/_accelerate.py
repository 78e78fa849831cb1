"""accelerate, and with it the Hugging Face Trainer, must not let the ranks of a job train apart.

On a host without GPUs PartialState, unless it is told `cpu=True`, takes each rank for the only one,
whatever process group there is: nothing fails, and every rank trains a model of its own.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_STATE = "accelerate.state"


def _guard(state: ModuleType, ranks: Callable[[], int]) -> None:
    initialize = state.PartialState.__init__

    @functools.wraps(initialize)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        initialize(self, *args, **kwargs)
        if self.distributed_type == state.DistributedType.NO and (size := ranks()) > 1:
            raise RuntimeError(
                f"accelerate would have the {size} ranks of this floe process group train apart,"
                " each a model of its own: it takes CPUs only when told so. Use"
                " TrainingArguments(use_cpu=True), Accelerator(cpu=True) or PartialState(cpu=True)"
            )

    state.PartialState.__init__ = checked


class _Finder(importlib.abc.MetaPathFinder):
    """Guards accelerate.state when it is imported."""

    def __init__(self, ranks: Callable[[], int]) -> None:
        self.ranks = ranks

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _STATE:
            return None
        sys.meta_path.remove(self)  # the others find it
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_guard(module: ModuleType) -> None:
                execute(module)
                _guard(module, self.ranks)

            spec.loader.exec_module = execute_and_guard  # type: ignore[method-assign]
        return spec


def install(ranks: Callable[[], int]) -> None:
    """`ranks` tells how many there are in the job's process group, if that is floe's, or else 0."""
    if _STATE in sys.modules:
        _guard(sys.modules[_STATE], ranks)
    else:
        sys.meta_path.insert(0, _Finder(ranks))
