"""What networks do to ranks: see README.md for the whole list, and and which test shows it."""

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
            assert rank.returncode == 0 or re.search(r"rank 2\b", err)
        assert time.monotonic() - start < timeout + 3
