"""PyTorch's Gloo over floe between hosts: every element of every result is right."""

import os
import sys
from pathlib import Path

import pytest

from cluster import Cluster, missing

HERE = Path(__file__).parent
SHIM = HERE.parents[1] / os.environ.get("BUILD_DIR", "build") / "lib" / "libfloe_gloo_preload.so"
SECONDS = 240

reason = missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(reason is not None, reason=str(reason))]


@pytest.mark.parametrize("hosts", [2, 4], indirect=True)
def test_every_result_is_right(hosts: Cluster) -> None:
    environment = {
        "GLOO_DEVICE_TRANSPORT": "FLOE",
        "GLOO_SOCKET_IFNAME": "eth0",
        "LD_PRELOAD": str(SHIM),
    }
    for rank in hosts.launch([sys.executable, str(HERE / "gloo_rank.py")], SECONDS, environment):
        assert rank.returncode == 0, f"rank {rank.rank}: {rank.stderr}"
