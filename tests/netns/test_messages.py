"""Messages between hosts arrive whole, in order and unmixed, over floe and by Gloo over floe."""

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


@pytest.mark.parametrize("per_host", [1, 2])
@pytest.mark.parametrize("backend", ["floe", "gloo"])
@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_random_messages(hosts: Cluster, backend: str, per_host: int) -> None:
    environment = {"GLOO_SOCKET_IFNAME": "eth0"}
    if backend == "gloo":
        environment |= {"GLOO_DEVICE_TRANSPORT": "FLOE", "LD_PRELOAD": str(SHIM)}
    command = [sys.executable, str(HERE / "messages_rank.py"), backend, "1"]
    for rank, process in enumerate(hosts.start_ranks(command, environment, per_host)):
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, f"rank {rank}: {out}{err}"
