"""Debian 12's own PyTorch, 1.13.1: the first revision of Gloo's interface, in a library apart."""

import re
from pathlib import Path

import pytest

from gloo_launch import (
    Start,
    check_same,
    environment,
    preloaded,
    reported,
    run_collectives,
    run_python,
    succeed,
    wait_until_started,
)

PYTHON = "/usr/bin/python3"
# Where its python3-torch may be: installed, or unpacked with what it needs by tools/dev test.
ROOTS = [Path("/"), Path(__file__).parents[2] / "build-debian-torch"]


@pytest.fixture(scope="module")
def debian() -> dict[str, str]:
    """What its programs need in their environment."""
    for root in ROOTS:
        library = next(root.glob("usr/lib/*/libtorch_cpu.so.1.13"), None)
        package = root / "usr/lib/python3/dist-packages"
        if library is None or not (package / "torch").exists():
            continue
        if root == Path("/"):
            return {}
        folder = library.parent
        folders = [folder, folder / "blas", folder / "lapack", root / "usr/lib"]
        folders.append(root / "lib" / folder.name)
        return {"PYTHONPATH": str(package), "LD_LIBRARY_PATH": ":".join(map(str, folders))}
    pytest.skip("Debian 12's python3-torch is neither installed nor unpacked here")


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_operation_gives_the_same_bits_as_gloo(
    ranks: int, start: Start, lib_dir: Path, tmp_path: Path, debian: dict[str, str]
) -> None:
    results = []
    for name, env in (("gloo", environment()), ("floe", preloaded(lib_dir))):
        folder = tmp_path / name
        folder.mkdir()
        results.append(run_collectives(start, ranks, env | debian, folder, PYTHON))
    check_same(results[1], results[0])


def test_floe_carries_the_data(start: Start, lib_dir: Path, debian: dict[str, str]) -> None:
    def run(env: dict[str, str]) -> list[tuple[str, int]]:
        return reported(start("report.py", 2, env | debian, python=PYTHON))

    assert run(preloaded(lib_dir)) == [("True", 0)] * 2
    assert run(preloaded(lib_dir, GLOO_DEVICE_TRANSPORT="FLOE")) == [("True", 0)] * 2
    for env in (environment(), preloaded(lib_dir, GLOO_DEVICE_TRANSPORT="TCP")):
        for floe, connections in run(env):
            assert floe == "False"
            assert connections > 0


def test_loading_after_torch_registers_floe(lib_dir: Path, debian: dict[str, str]) -> None:
    code = f"""
import ctypes, torch
ctypes.CDLL('{lib_dir}/libfloe_gloo.so')
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
print("floe" if "libfloe_gloo.so" in open("/proc/self/maps").read() else "gloo")
"""
    env = environment(GLOO_DEVICE_TRANSPORT="FLOE") | debian
    done = run_python(code, env, PYTHON)
    assert (done.stdout, done.returncode) == ("floe\n", 0), done.stderr


def test_survivors_of_a_killed_rank_name_it(
    start: Start, lib_dir: Path, debian: dict[str, str]
) -> None:
    ranks = start("all_reduce_forever.py", 3, preloaded(lib_dir) | debian, python=PYTHON)
    wait_until_started(ranks)
    ranks[2].kill()
    succeed(ranks[:2])
    for rank in ranks[:2]:
        assert re.search(r"RuntimeError: .*rank 2\b", rank.text()), rank.text()
