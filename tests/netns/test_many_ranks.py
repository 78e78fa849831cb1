"""Many ranks on many hosts start, run every collective and stop."""

import os
import time
from pathlib import Path

import pytest

from cluster import Cluster, missing

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / os.environ.get("BUILD_DIR", "build") / "tests" / "netns" / "floe_every_collective"
SECONDS = 60

reason = missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(reason is not None, reason=str(reason))]


@pytest.mark.parametrize(
    ("hosts", "per_host"),
    [(4, 4), pytest.param(8, 8, marks=pytest.mark.soak)],
    indirect=["hosts"],
    ids=["16", "64"],
)
def test_every_collective(hosts: Cluster, per_host: int) -> None:
    start = time.monotonic()
    for rank, process in enumerate(hosts.start_ranks([str(PROGRAM)], per_host=per_host)):
        out, err = process.communicate(timeout=max(1, start + SECONDS - time.monotonic()))
        print(out, err, sep="", end="")
        assert process.returncode == 0, f"rank {rank}"
    print(f"{time.monotonic() - start:.1f} s in all")
