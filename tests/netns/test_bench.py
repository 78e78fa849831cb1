"""floe-bench between hosts, beside TCP alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import missing

ROOT = Path(__file__).parents[2]
BENCH = ROOT / os.environ.get("BUILD_DIR", "build") / "tools" / "floe-bench"
BETWEEN_HOSTS = ROOT / "tools" / "floe-bench" / "between_hosts.py"

reason = missing()
pytestmark = pytest.mark.skipif(reason is not None, reason=str(reason))


@pytest.mark.parametrize("hosts", [2, 3])
def test_floe_is_shown_beside_tcp_alone_with_the_share_of_the_link(hosts: int) -> None:
    options = ["--dtype", "float32", "--in-place", "--sizes=64K", "--seconds", "0.1"]
    command = [sys.executable, str(BETWEEN_HOSTS), "--bench", str(BENCH), "--hosts", str(hosts)]
    command += ["--rate", "1gbit", "--bare", "--", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    figure = r" +([\d.]+)"
    limit = 2 * (hosts - 1) / hosts * 65536 * 8 / 1e3
    for who in ("bare TCP", "floe"):
        row = re.search(rf"^all_reduce .* 65536 {who} *" + 6 * figure, done.stdout, re.MULTILINE)
        assert row, done.stdout
        shortest, p50, _, p99, cpu, shown = (float(text) for text in row.groups())
        assert 0 < shortest <= p50 <= p99
        assert cpu > 0
        assert shown == pytest.approx(limit, abs=0.1)
