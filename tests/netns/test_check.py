"""floe-info --check between hosts: what it measures, and what it finds wrong."""

import os
from pathlib import Path

import pytest

from cluster import Cluster, missing

ROOT = Path(__file__).parents[2]
INFO = ROOT / os.environ.get("BUILD_DIR", "build") / "tools" / "floe-info"
COMMAND = [str(INFO), "--check", "--seconds", "0.5"]

reason = missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason is not None, reason=str(reason)),
    pytest.mark.parametrize("hosts", [2], indirect=True),
]


def test_pairs_are_measured_and_mtus_compared(hosts: Cluster) -> None:
    hosts.network(1, "link", "set", "eth0", "mtu", "1400")
    first, second = hosts.launch(COMMAND, seconds=60)
    print(first.stdout, second.stdout, second.stderr)
    assert (first.returncode, second.returncode) == (0, 0)
    assert "reached from 10.77.0.1" in first.stdout
    assert "eth0 10.77.0.1, MTU 1500" in first.stdout
    assert "rank 0 (floe-host0) - rank 1 (floe-host1): " in first.stdout
    assert "1500 of eth0 on rank 0 (floe-host0), 1400 of eth0 on rank 1" in first.stdout
    assert "ip link set eth0 mtu 1500" in second.stdout


def test_a_host_without_a_route_says_so(hosts: Cluster) -> None:
    elsewhere = {"MASTER_ADDR": "10.99.0.1", "FLOE_TIMEOUT_MS": "1000"}
    for one in hosts.launch(COMMAND, seconds=60, environment=elsewhere):
        print(one.stdout, one.stderr)
        assert one.returncode == 1
        assert "there is no route to 10.99.0.1" in one.stdout
