"""Every rank of every host soon knows who is gone: processes die, and hosts fall silent."""

import contextlib
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from cluster import MASTER_PORT, Cluster, Rank, await_line, missing

COMMAND = [sys.executable, str(Path(__file__).parent / "death_rank.py")]
SETTINGS = {"FLOE_TIMEOUT_MS": "30000", "LINGER": "8"}

reason = missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(reason is not None, reason=str(reason))]


def start(hosts: Cluster, per_host: int, **more: str) -> list[Rank]:
    """Starts the ranks and returns once all have reduced."""
    ranks = hosts.start_ranks(COMMAND, {**SETTINGS, **more}, per_host)
    await_line(ranks, "reduced")
    return ranks


def answers(ranks: list[Rank], seconds: float = 60) -> dict[int, tuple[float, str]]:
    """When and what each rank said in the end; nothing of those that were killed."""
    deadline = time.monotonic() + seconds
    result = {}
    for rank, one in enumerate(ranks):
        out, err = one.communicate(timeout=max(1, deadline - time.monotonic()))
        print(f"rank {rank} returned {one.returncode}\n{out}\n{err}")
        if out.strip():
            at, text = out.strip().split(" ", 1)
            result[rank] = (float(at), text)
    return result


@pytest.mark.parametrize(
    ("hosts", "per_host", "victim"),
    [(3, 1, 2), (3, 1, 0), (2, 2, 2), (2, 2, 3), (2, 2, 0)],
    indirect=["hosts"],
    ids=["the last host's", "the first host's", "one of two", "the other of two", "rank 0 of two"],
)
def test_a_killed_process_is_named_within_a_second(
    hosts: Cluster, per_host: int, victim: int
) -> None:
    ranks = start(hosts, per_host)
    pid = ranks[victim].pid  # nsenter has become the rank itself
    killed = time.time()
    ranks[victim].send_signal(signal.SIGKILL)
    told = answers(ranks)
    assert set(told) == set(range(len(ranks))) - {victim}
    name = f"rank {victim} (host floe-host{victim // per_host}, pid {pid}) died"
    for at, text in told.values():
        assert name in text
        assert at - killed < 1


@pytest.mark.parametrize("hosts", [3], indirect=True)
def test_a_silent_host_is_named_within_six_seconds(hosts: Cluster) -> None:
    ranks = start(hosts, 2)
    cut = time.time()
    hosts.network(2, "link", "set", "eth0", "down")
    told = answers(ranks)
    assert set(told) == set(range(6))
    for rank in range(4):
        at, text = told[rank]
        assert re.search(r"rank 4 \(host floe-host2, pid \d+\) cannot be reached", text)
        assert at - cut < 6.5
    for rank in (4, 5):  # who is cut off can't know that it is that one
        assert "rank 0 (host floe-host0" in told[rank][1] or "floe-host1" in told[rank][1]


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_an_outage_of_three_seconds_is_survived(hosts: Cluster) -> None:
    ranks = start(hosts, 1, SECONDS="12")
    hosts.network(1, "link", "set", "eth0", "down")
    time.sleep(3)
    hosts.network(1, "link", "set", "eth0", "up")
    for _, text in answers(ranks).values():
        assert text.startswith("longest ")
        assert float(text.split()[1]) >= 2.5


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_another_secret_is_refused(hosts: Cluster) -> None:
    settings = {"FLOE_TIMEOUT_MS": "5000", "FLOE_SECRET_FILE": "/proc/sys/kernel/hostname"}
    ranks = hosts.start_ranks(COMMAND, settings)
    told = answers(ranks)
    assert "FLOE_SECRET" in told[1][1]
    assert "floe-host0" in told[1][1]
    assert "FLOE_SECRET" in told[0][1]


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_ports_are_of_the_range_and_closed_once_all_are_there(hosts: Cluster) -> None:
    ranks = start(hosts, 2, FLOE_PORT_RANGE="20000-20007", FLOE_SECRET="of this test", SECONDS="5")
    listening, connected = [], []
    for host in range(2):
        with contextlib.closing(open(f"/proc/{ranks[2 * host].pid}/net/tcp")) as table:
            for line in table.readlines()[1:]:
                _, local, remote, state = line.split()[:4]
                ports = {int(end.split(":")[1], 16) for end in (local, remote)}
                if state == "0A":
                    listening += ports - {0, MASTER_PORT}
                elif state == "01" and MASTER_PORT not in ports:
                    connected.append(ports)
    # libfabric's remain; the control connections' have gone.
    assert len(listening) == 4
    assert all(20000 <= port <= 20007 for port in listening)
    assert all(any(20000 <= port <= 20007 for port in ports) for ports in connected)
    for _, text in answers(ranks).values():
        assert text.startswith("longest ")
