"""Two hosts, one rank on each: all that passes between them goes through libfabric."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import Cluster, Finished, missing

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / os.environ.get("BUILD_DIR", "build") / "examples" / "c" / "all_reduce"
TRAINER = [sys.executable, str(ROOT / "examples" / "bf16_ddp" / "train.py"), "--backend", "floe"]
STEPS = 15

reason = missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason is not None, reason=str(reason)),
    pytest.mark.parametrize("hosts", [2], indirect=True),
]


def all_ranks_succeeded(finished: list[Finished]) -> bool:
    for one in finished:
        print(f"rank {one.rank} returned {one.returncode}\n{one.stdout}\n{one.stderr}")
    return all(one.returncode == 0 for one in finished)


def test_c_program_reduces_across_hosts(hosts: Cluster) -> None:
    finished = hosts.launch([str(PROGRAM)], seconds=60)
    assert all_ranks_succeeded(finished)
    for one in finished:
        assert f"rank {one.rank} of 2: 1 + ... + 2 = 3\n" in one.stdout


@pytest.mark.parametrize("grad_dtype", ["fp32", "bf16"])
def test_trainer_gets_the_same_bits_on_two_hosts_as_on_one(
    hosts: Cluster, tmp_path: Path, grad_dtype: str
) -> None:
    pytest.importorskip("torch_floe")
    options = ["--steps", str(STEPS), "--probe-every", "0", "--grad-dtype", grad_dtype]
    options += ["--threads", "1"]  # the number of threads changes the order of sums
    one_host, two_hosts = tmp_path / "one.json", tmp_path / "two.json"

    finished = hosts.launch([*TRAINER, *options, "--json", str(two_hosts)], seconds=300)
    assert all_ranks_succeeded(finished)
    subprocess.run(
        [*TRAINER, *options, "--ranks", "2", "--json", str(one_host)], check=True, timeout=300
    )

    apart, together = (json.loads(path.read_text()) for path in (two_hosts, one_host))
    assert apart["step"] == STEPS
    assert apart["history"] == together["history"]
    assert apart["parameters_sha256"] == together["parameters_sha256"]
