"""floe's operations in PyTorch's flight recorder."""

from __future__ import annotations

import json
import pickle
import threading
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist

from launch import run_ranks, run_scripts


def entries() -> list[dict[str, Any]]:
    return pickle.loads(c10d._dump_fr_trace())["entries"]


def stack_of(entry: dict[str, Any]) -> list[str]:
    return [frame["name"] for frame in entry["frames"] if frame["name"] != "wrapper"]


def check_entries() -> None:
    rank = dist.get_rank()
    dist.all_reduce(torch.ones(3, 2))
    gathered = torch.empty(8, dtype=torch.int16)
    dist.all_gather_into_tensor(gathered, torch.ones(4, dtype=torch.int16), async_op=True).wait()
    if rank == 0:
        dist.send(torch.ones(5), 1)
    else:
        dist.recv(torch.ones(5), 0)
    dist.barrier(dist.new_group([rank], backend="floe", use_local_synchronization=True))

    reduced, gathering, message, barrier = (e for e in entries() if "floe:" in e["profiling_name"])
    assert reduced["profiling_name"] == "floe:all_reduce"
    assert reduced["process_group"] == ("0", "default_pg")
    assert (reduced["state"], reduced["retired"], reduced["is_p2p"]) == ("completed", True, False)
    assert (reduced["input_sizes"], reduced["input_dtypes"]) == ([[3, 2]], ["Float"])
    assert reduced["timeout_ms"] == 60000
    assert reduced["duration_ms"] > 0
    assert not reduced["frames"]  # of blocking calls that have failed, or are under way
    assert "check_entries" in stack_of(gathering)
    assert (gathering["output_sizes"], gathering["output_dtypes"]) == ([[8]], ["Short"])
    assert gathering["collective_seq_id"] == reduced["collective_seq_id"] + 1
    assert (message["is_p2p"], message["p2p_seq_id"]) == (True, 1)
    assert message["profiling_name"] == ("floe:recv" if rank else "floe:send")
    assert barrier["profiling_name"] == "floe:barrier"

    trace = pickle.loads(c10d._dump_fr_trace(includeCollectives=False))
    assert "entries" not in trace
    assert trace["pg_config"]["0"] == {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}
    config = trace["pg_config"][barrier["process_group"][0]]
    assert config["ranks"] == f"[{rank}]"
    status = trace["pg_status"][str(reduced["pg_id"])]
    assert status["last_completed_collective"] == status["last_enqueued_collective"]
    without = pickle.loads(c10d._dump_fr_trace(includeStackTraces=False))
    assert "frames" not in without["entries"][0]
    assert json.loads(c10d._dump_fr_trace_json())["entries"][-1]["profiling_name"] == "floe:barrier"
    # Beside Gloo's own.
    dist.all_reduce(torch.ones(1), group=dist.new_group(backend="gloo"))
    assert {e["profiling_name"] for e in entries()} >= {"floe:all_reduce", "gloo:all_reduce"}


@pytest.mark.quick
def test_shows_operations() -> None:
    run_ranks(2, check_entries)


def check_failed() -> None:
    group = dist.new_group(backend="floe", timeout=timedelta(seconds=1))
    dist.all_reduce(torch.ones(1), group=group)
    if dist.get_rank() == 0:
        seen: list[dict[str, Any]] = []
        looks = threading.Timer(0.3, lambda: seen.append(entries()[-1]))
        looks.start()
        with pytest.raises(dist.DistBackendError, match="Timed out"):
            dist.all_reduce(torch.ones(7), group=group)
        looks.join()
        assert (seen[0]["state"], seen[0]["retired"]) == ("started", False)
        assert "check_failed" in stack_of(seen[0])
        last = entries()[-1]
        assert (last["state"], last["retired"]) == ("started", True)
        assert (last["input_sizes"], last["timeout_ms"]) == ([[7]], 1000)
        assert "duration_ms" not in last
        assert "check_failed" in stack_of(last)
        active = pickle.loads(c10d._dump_fr_trace(onlyActive=True))["entries"]
        assert [e["record_id"] for e in active] == [last["record_id"]]
        status = pickle.loads(c10d._dump_fr_trace())["pg_status"][str(last["pg_id"])]
        assert status["last_completed_collective"] == status["last_enqueued_collective"] - 1
    dist.barrier()


def test_shows_what_timed_out() -> None:
    run_ranks(2, check_failed)


OFF = """
join(job, rank, ranks)
dist.all_reduce(torch.ones(1))
import pickle, torch._C._distributed_c10d as c10d
assert "floe" not in str(pickle.loads(c10d._dump_fr_trace()).get("entries"))
dist.destroy_process_group()
"""


def test_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "0")
    for ended in run_scripts(1, OFF):
        assert ended.code == 0, ended.output


def check_ring() -> None:
    for i in range(20):
        dist.all_reduce(torch.ones(i))
    assert [e["input_sizes"] for e in entries()] == [[[i]] for i in range(16, 20)]


def test_keeps_the_last_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "4")
    run_ranks(1, check_ring)
