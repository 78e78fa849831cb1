"""What networks do to ranks: see README.md for the whole list, and which test shows it."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from cluster import Cluster, Rank, await_line, missing

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / os.environ.get("BUILD_DIR", "build")
RANK = [sys.executable, str(HERE / "death_rank.py")]
PROGRAM = [str(BUILD / "tests" / "netns" / "floe_every_collective")]

reason = missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(reason is not None, reason=str(reason))]


def last_words(ranks: list[Rank], seconds: float = 60) -> list[tuple[float, str]]:
    """When and what each rank said in the end."""
    deadline = time.monotonic() + seconds
    words = []
    for number, rank in enumerate(ranks):
        out, err = rank.communicate(timeout=max(1, deadline - time.monotonic()))
        print(f"rank {number} returned {rank.returncode}\n{out}\n{err}")
        at, text = out.strip().split(" ", 1)
        words.append((float(at), text))
    return words


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_a_black_hole_is_named_within_six_seconds(hosts: Cluster) -> None:
    ranks = hosts.start_ranks(RANK, {"FLOE_TIMEOUT_MS": "30000"})
    await_line(ranks, "reduced")
    cut = time.time()
    hosts.black_hole(1)  # the cable stays plugged: eth0 notices nothing
    for number, (at, text) in enumerate(last_words(ranks)):
        assert re.search(rf"rank {1 - number} \(host floe-host{1 - number}, pid \d+\)", text)
        assert at - cut < 6.5


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_connections_that_are_reset_end_the_operation(hosts: Cluster) -> None:
    ranks = hosts.start_ranks(RANK, {"FLOE_TIMEOUT_MS": "30000", "LINGER": "1"})
    await_line(ranks, "reduced")
    cut = time.time()
    hosts.reset_connections(1)
    for at, text in last_words(ranks):
        assert re.search(r"rank \d \(host floe-host\d, pid \d+\)", text)
        assert at - cut < 6.5


@pytest.mark.parametrize("hosts", [3], indirect=True)
def test_a_rank_killed_while_all_connect_is_an_error_by_the_deadline(hosts: Cluster) -> None:
    timeout = 2.0
    for delay in (0.02, 0.06):
        start = time.monotonic()
        ranks = hosts.start_ranks(PROGRAM, {"FLOE_TIMEOUT_MS": str(int(1000 * timeout))})
        time.sleep(delay)
        ranks[2].send_signal(signal.SIGKILL)
        for rank in ranks[:2]:
            _, err = rank.communicate(timeout=30)
            print(f"{delay} s: returned {rank.returncode}: {err}")
            assert rank.returncode != 0
            assert re.search(r"rank 2\b", err)
        assert time.monotonic() - start < timeout + 3


def listening_ports(rank: Rank) -> set[int]:
    lines = Path(f"/proc/{rank.pid}/net/tcp").read_text().splitlines()[1:]
    entries = [line.split() for line in lines]
    return {int(entry[1].split(":")[1], 16) for entry in entries if entry[3] == "0A"}


def descriptors(ranks: list[Rank]) -> list[int]:
    return [len(os.listdir(f"/proc/{rank.pid}/fd")) for rank in ranks]


@pytest.mark.parametrize("hosts", [3], indirect=True)
def test_strangers_at_every_port_change_nothing(hosts: Cluster) -> None:
    few = ["prlimit", "--nofile=1024", *RANK]
    ranks = hosts.start_ranks(few, {"FLOE_TIMEOUT_MS": "30000", "SECONDS": "12"}, hosts_used=2)
    await_line(ranks, "reduced")
    before = descriptors(ranks)
    targets = [
        f"{hosts.address(host)}:{port}"
        for host, rank in enumerate(ranks)
        for port in listening_ports(rank)
    ]
    assert targets  # libfabric's: floe's own are closed
    attack = hosts.start(
        2, ["prlimit", "--nofile=4096", sys.executable, str(HERE / "strangers.py"), *targets], {}
    )
    out, err = attack.communicate(timeout=60)
    assert attack.returncode == 0, out + err
    deadline = time.monotonic() + 5
    while descriptors(ranks) != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert descriptors(ranks) == before
    for _, text in last_words(ranks):
        assert text.startswith("longest ")
