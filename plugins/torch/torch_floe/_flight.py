"""floe's operations in what PyTorch's flight recorder answers."""

from __future__ import annotations

import functools
import json
import pickle
import sys
import traceback
from typing import Any

import torch
import torch._C._distributed_c10d as recorder


def _merged(whole: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """`whole` with the groups and operations of `ours`, in the order in which they were issued."""
    for part in ("pg_config", "pg_status"):
        whole[part] = {**whole.get(part, {}), **ours[part]}
    if entries := [*whole.get("entries", []), *ours.get("entries", [])]:
        whole["entries"] = sorted(entries, key=lambda entry: entry["time_created_ns"])
    return whole


def _add_stacks(entries: list[dict[str, Any]]) -> None:
    """Of blocking calls that are under way, which record none: see flight.h."""
    frames = sys._current_frames()
    for entry in entries:
        blocks = entry["state"] == "started" and not entry["retired"] and not entry["frames"]
        if blocks and (frame := frames.get(int(entry["thread_id"]))):
            entry["frames"] = [
                {"name": at.f_code.co_name, "filename": at.f_code.co_filename, "line": line}
                for at, line in traceback.walk_stack(frame)
            ]


def install() -> None:
    """Adds floe's operations to the answers: what records them is not the recorder in libtorch,
    which other libraries can't reach.
    """
    dump, dump_json = recorder._dump_fr_trace, recorder._dump_fr_trace_json

    @functools.wraps(dump)
    def dump_fr_trace(
        includeCollectives: bool | None = None,
        includeStackTraces: bool | None = None,
        onlyActive: bool | None = None,
    ) -> bytes:
        # None is what PyTorch's own defaults are.
        asked = includeCollectives is not False, includeStackTraces is not False, bool(onlyActive)
        whole = pickle.loads(dump(*asked))
        ours = torch.ops.floe._flight_trace(*asked)
        if asked[1]:
            _add_stacks(ours.get("entries", []))
        return pickle.dumps(_merged(whole, ours))

    @functools.wraps(dump_json)
    def dump_fr_trace_json(
        includeCollectives: bool | None = None, onlyActive: bool | None = None
    ) -> bytes:
        asked = includeCollectives is not False, bool(onlyActive)
        whole = json.loads(dump_json(*asked))
        ours = json.loads(torch.ops.floe._flight_trace_json(*asked))
        return json.dumps(_merged(whole, ours)).encode()

    recorder._dump_fr_trace = dump_fr_trace
    recorder._dump_fr_trace_json = dump_fr_trace_json
