"""Hosts with one rank each: all that passes between them goes through libfabric."""

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

reason = missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(reason is not None, reason=str(reason)),
]


def all_ranks_succeeded(finished: list[Finished]) -> bool:
    for one in finished:
        print(f"rank {one.rank} returned {one.returncode}\n{one.stdout}\n{one.stderr}")
    return all(one.returncode == 0 for one in finished)


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_c_program_reduces_across_hosts(hosts: Cluster) -> None:
    finished = hosts.launch([str(PROGRAM)], seconds=60)
    assert all_ranks_succeeded(finished)
    for one in finished:
        assert f"rank {one.rank} of 2: 1 + ... + 2 = 3\n" in one.stdout


# Between more than two hosts sums of float32 go around a ring, in another order than inside one.
@pytest.mark.parametrize(
    ("hosts", "grad_dtype", "steps"),
    [(2, "bf16", 15), (4, "bf16", 4), (4, "fp32", 4)],
    indirect=["hosts"],
    ids=["2-bf16", "4-bf16", "4-fp32"],
)
def test_trainer_reaches_the_same_loss_on_several_hosts_as_on_one(
    hosts: Cluster, tmp_path: Path, grad_dtype: str, steps: int
) -> None:
    pytest.importorskip("torch_floe")
    options = ["--steps", str(steps), "--probe-every", "0", "--grad-dtype", grad_dtype]
    options += ["--batch", "8", "--context", "32"]  # the gradients are as large, and soon there
    options += ["--threads", "1"]  # the number of threads changes the order of sums
    one_host, several = tmp_path / "one.json", tmp_path / "several.json"

    finished = hosts.launch([*TRAINER, *options, "--json", str(several)], seconds=300)
    assert all_ranks_succeeded(finished)
    subprocess.run(
        [*TRAINER, *options, "--ranks", str(hosts.hosts), "--json", str(one_host)],
        check=True,
        timeout=300,
    )

    apart, together = (json.loads(path.read_text()) for path in (several, one_host))
    assert apart["step"] == steps
    if grad_dtype == "fp32":
        for one, other in zip(apart["history"], together["history"], strict=True):
            assert one == pytest.approx(other, rel=1e-5)
    else:
        assert apart["history"] == together["history"]
        assert apart["parameters_sha256"] == together["parameters_sha256"]
