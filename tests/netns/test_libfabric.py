"""Hosts whose libfabrics differ."""

import os
from pathlib import Path

import pytest

from cluster import MASTER_PORT, Cluster, missing

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / os.environ.get("BUILD_DIR", "build") / "examples" / "c" / "all_reduce"
NEWER = ROOT / "build-libfabric2"  # what `tools/dev test` unpacks

reason = missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason is not None, reason=str(reason)),
    pytest.mark.skipif(not NEWER.is_dir(), reason=f"no second libfabric in {NEWER}"),
]


def test_libfabrics_that_differ_are_named() -> None:
    ranks = []
    with Cluster(2) as hosts:
        for rank in range(2):
            environment = {
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": hosts.address(0),
                "MASTER_PORT": str(MASTER_PORT),
                "FLOE_TIMEOUT_MS": "10000",
            }
            if rank == 1:
                environment["LD_LIBRARY_PATH"] = str(NEWER)
            ranks.append(hosts.start(rank, [str(PROGRAM)], environment))
        said = [one.communicate(timeout=60)[1] for one in ranks]
    for rank, text in enumerate(said):
        assert ranks[rank].returncode == 1
        assert f"rank {1 - rank} (host floe-host{1 - rank}, pid " in text
        assert "of libfabric 1." in text
        assert "of libfabric 2." in text
        assert "install one libfabric on all hosts" in text
