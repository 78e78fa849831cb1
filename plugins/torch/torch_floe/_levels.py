"""Callbacks of futures run at the level of who attached them, on whatever thread they run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def _at_level_above(attach: Callable[[Any, Callable], Any]) -> Callable[[Any, Callable], Any]:
    """`attach` is a method of torch's futures that takes a callback."""

    @functools.wraps(attach)
    def attach_at_level(future: Any, callback: Callable) -> Any:
        level = torch.ops.floe._level() + 1

        @functools.wraps(callback, updated=())
        def run(done: Any) -> Any:
            before = torch.ops.floe._enter_level(level)
            try:
                return callback(done)
            finally:
                torch.ops.floe._enter_level(before)

        return attach(future, run)

    return attach_at_level


def install() -> None:
    """Makes callbacks say what they are, for whether a future is complete when one is attached is
    a matter of chance and may differ between ranks: if so, the callback runs at once, on the thread
    that attaches it, and nothing else tells its collectives from those of that thread.
    """
    future = torch._C.Future
    for name in ("then", "add_done_callback"):
        setattr(future, name, _at_level_above(getattr(future, name)))
