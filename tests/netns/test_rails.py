"""Data over several interfaces of a host at once."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster, missing

RANK = [sys.executable, str(Path(__file__).parent / "rails_rank.py")]
MEGABYTES = 16

reason = missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(reason is not None, reason=str(reason))]


@pytest.fixture(scope="module")
def hosts() -> Iterator[Cluster]:
    with Cluster(2, rails=2) as cluster:
        yield cluster


def sent(hosts: Cluster, host: int) -> dict[str, float]:
    """MiB that each interface of a host has sent since it was made."""
    out, _ = hosts.start(host, ["cat", "/proc/net/dev"], {}).communicate(timeout=20)
    lines = [line.split(":") for line in out.splitlines() if ":" in line]
    return {name.strip(): int(numbers.split()[8]) / 2**20 for name, numbers in lines}


def reduce_over(hosts: Cluster, **settings: str) -> list[dict[str, float]]:
    """What each host sent over each interface."""
    before = [sent(hosts, host) for host in range(hosts.hosts)]
    environment = {"MEGABYTES": str(MEGABYTES), **settings}
    for one in hosts.launch(RANK, seconds=60, environment=environment):
        assert one.returncode == 0, one.stderr
    after = [sent(hosts, host) for host in range(hosts.hosts)]
    return [
        {name: after[host][name] - before[host][name] for name in after[host]}
        for host in range(hosts.hosts)
    ]


def test_one_interface_carries_all_by_default(hosts: Cluster) -> None:
    for host in reduce_over(hosts):
        assert host["eth0"] >= MEGABYTES
        assert host["eth1"] < 1


def test_two_rails_share_the_data(hosts: Cluster) -> None:
    # Both take the range's first free port, each at its own address.
    for host in reduce_over(hosts, FLOE_RAILS="2", FLOE_PORT_RANGE="20000-20009"):
        assert host["eth0"] + host["eth1"] >= MEGABYTES
        assert host["eth0"] > MEGABYTES / 4
        assert host["eth1"] > MEGABYTES / 4


def test_the_list_of_interfaces_chooses_rails(hosts: Cluster) -> None:
    for host in reduce_over(hosts, FLOE_IFNAME="eth1"):
        assert host["eth0"] < 1
        assert host["eth1"] >= MEGABYTES


def test_too_few_interfaces_are_an_error_that_lists_them(hosts: Cluster) -> None:
    environment = {"MEGABYTES": "1", "FLOE_RAILS": "3"}
    for one in hosts.launch(RANK, seconds=60, environment=environment):
        assert one.returncode == 1
        assert "2 usable interfaces for FLOE_RAILS=3" in one.stderr
        assert "eth1 (10.78.0." in one.stderr
