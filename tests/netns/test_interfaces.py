"""Which interfaces floe takes between hosts."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster, missing

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / os.environ.get("BUILD_DIR", "build") / "examples" / "c" / "all_reduce"

reason = missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(reason is not None, reason=str(reason))]


@pytest.fixture(scope="module")
def hosts() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        yield cluster


@pytest.mark.parametrize("names", ["eth", "=eth0", "^lo,docker", "ib0,eth0"])
def test_interfaces_are_named_as_for_nccl(hosts: Cluster, names: str) -> None:
    for one in hosts.launch([str(PROGRAM)], seconds=60, environment={"FLOE_IFNAME": names}):
        assert one.returncode == 0, one.stderr


def test_loopback_between_hosts_is_refused_and_both_are_named(hosts: Cluster) -> None:
    for one in hosts.launch([str(PROGRAM)], seconds=60, environment={"FLOE_IFNAME": "lo"}):
        assert one.returncode == 1
        assert "rank 0 (host floe-host0, pid " in one.stderr
        assert "listens on loopback, where rank 1 (host floe-host1, pid " in one.stderr
        assert "set FLOE_IFNAME to the interface that leads to host floe-host1" in one.stderr


def test_an_unknown_interface_is_an_error_that_lists_the_others(hosts: Cluster) -> None:
    environment = {"FLOE_IFNAME": "=eth7", "FLOE_TIMEOUT_MS": "3000"}
    for one in hosts.launch([str(PROGRAM)], seconds=60, environment=environment):
        assert one.returncode == 1
        assert "FLOE_IFNAME='=eth7'" in one.stderr
        assert f"eth0 ({hosts.address(one.rank)})" in one.stderr
