"""floe_comm_shrink on hosts that are network namespaces: processes die, and the network breaks."""

import signal
import sys
import time
from pathlib import Path

import pytest

from cluster import Cluster, Rank, await_line, missing

COMMAND = [sys.executable, str(Path(__file__).parent / "shrink_rank.py")]

reason = missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(reason is not None, reason=str(reason))]


def start(hosts: Cluster, per_host: int, timeout_ms: int = 30_000) -> list[Rank]:
    """Starts the ranks and returns once all have reduced."""
    ranks = hosts.start_ranks(COMMAND, {"FLOE_TIMEOUT_MS": str(timeout_ms)}, per_host)
    await_line(ranks, "reduced")
    return ranks


def kill(ranks: list[Rank], victims: set[int]) -> None:
    for victim in victims:  # nsenter has become the rank itself
        ranks[victim].send_signal(signal.SIGKILL)


def answers(ranks: list[Rank], victims: set[int], seconds: float = 60) -> dict[int, str]:
    """What the survivors print in the end."""
    deadline = time.monotonic() + seconds
    result = {}
    for rank, one in enumerate(ranks):
        if rank in victims:
            one.kill()
        out, err = one.communicate(timeout=max(1, deadline - time.monotonic()))
        print(f"rank {rank} returned {one.returncode}\n{out}\n{err}")
        if rank not in victims:
            result[rank] = out.strip()
    return result


@pytest.mark.parametrize(
    ("hosts", "per_host", "victims"),
    [(3, 1, {2}), (3, 1, {0}), (2, 2, {2, 3}), (2, 2, {0, 2})],
    indirect=["hosts"],
    ids=["one of three", "rank 0 of three", "the second host", "one on each, rank 0 too"],
)
def test_survivors_go_on(hosts: Cluster, per_host: int, victims: set[int]) -> None:
    ranks = start(hosts, per_host)
    kill(ranks, victims)
    left = [rank for rank in range(len(ranks)) if rank not in victims]
    for rank, answer in answers(ranks, victims).items():
        assert answer == f"{left.index(rank)} of {len(left)}: {len(left)}"


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_half_of_the_hosts_without_rank_0_gets_an_error(hosts: Cluster) -> None:
    ranks = start(hosts, 2)
    kill(ranks, {0, 1})
    for answer in answers(ranks, {0, 1}).values():
        assert answer.startswith("error: ")
        assert "rank 0 (host floe-host0" in answer
        assert "2 hosts" in answer


@pytest.mark.parametrize("hosts", [3], indirect=True)
def test_a_broken_network_never_gives_two_communicators(hosts: Cluster) -> None:
    ranks = start(hosts, 1, timeout_ms=20_000)
    hosts.network(2, "link", "set", "eth0", "down")
    told = answers(ranks, set(), seconds=90)
    assert told[2].startswith("error: ")
    if told[0].startswith("error: "):  # a silent host may as well be a slow one, until the deadline
        assert "Timed out" in told[0]
        assert "rank 2 (host floe-host2" in told[0]
        assert told[1].startswith("error: ")
    else:
        assert (told[0], told[1]) == ("0 of 2: 2", "1 of 2: 2")
