"""How the plugin gets into a process, and that it stays out of all others."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gloo_launch import environment, preloaded, run_python

MAKE_GROUP = """
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""
REPORT = """
print("floe" if "libfloe_gloo.so" in open("/proc/self/maps").read() else "gloo")
"""


@pytest.mark.quick
def test_bash_under_the_shim_loads_nothing_else(lib_dir: Path) -> None:
    def libraries(env: dict[str, str]) -> set[str]:
        command = ["bash", "-c", 'while read -r line; do echo "$line"; done < /proc/self/maps']
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        lines = (line.split(maxsplit=5) for line in done.stdout.splitlines())
        return {fields[5] for fields in lines if len(fields) == 6 and ".so" in fields[5]}

    shim = str(lib_dir / "libfloe_gloo_preload.so")
    assert libraries(preloaded(lib_dir)) - libraries(environment()) == {shim}


def test_importing_torch_under_the_shim_loads_nothing_else(lib_dir: Path) -> None:
    done = run_python("import torch, torch.distributed" + REPORT, preloaded(lib_dir))
    assert (done.stdout, done.stderr) == ("gloo\n", "")


def test_a_group_under_the_shim_uses_floe(lib_dir: Path) -> None:
    done = run_python(MAKE_GROUP + REPORT, preloaded(lib_dir))
    assert (done.stdout, done.stderr, done.returncode) == ("floe\n", "", 0)


def test_without_the_shim_the_entry_point_registers_floe() -> None:
    done = run_python(MAKE_GROUP + REPORT, environment(GLOO_DEVICE_TRANSPORT="FLOE"))
    assert (done.stdout, done.returncode) == ("floe\n", 0), done.stderr


def test_without_shim_and_entry_point_floe_is_unknown() -> None:
    asked = environment(GLOO_DEVICE_TRANSPORT="FLOE", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    done = run_python(MAKE_GROUP, asked)
    assert done.returncode != 0
    assert "unsupported gloo device" in done.stderr


def test_loading_after_torch_registers_floe(lib_dir: Path) -> None:
    load = f"import ctypes, torch; ctypes.CDLL('{lib_dir}/libfloe_gloo.so')"
    done = run_python(load + MAKE_GROUP + REPORT, environment(GLOO_DEVICE_TRANSPORT="FLOE"))
    assert (done.stdout, done.returncode) == ("floe\n", 0), done.stderr


def test_loading_before_torch_says_what_to_do(lib_dir: Path) -> None:
    done = run_python(f"import ctypes; ctypes.CDLL('{lib_dir}/libfloe_gloo.so')", environment())
    assert done.stderr.startswith("floe: libfloe_gloo.so must be loaded after PyTorch")


def test_a_shim_without_its_plugin_leaves_gloo_alone(lib_dir: Path, tmp_path: Path) -> None:
    shutil.copy(lib_dir / "libfloe_gloo_preload.so", tmp_path)
    done = run_python(MAKE_GROUP + REPORT, preloaded(tmp_path))
    assert (done.stdout, done.returncode) == ("gloo\n", 0)
    assert "floe: Gloo's own transport is used" in done.stderr
    asked = run_python(
        MAKE_GROUP,
        preloaded(tmp_path, GLOO_DEVICE_TRANSPORT="FLOE", TORCH_DEVICE_BACKEND_AUTOLOAD="0"),
    )
    assert asked.returncode != 0
    assert "unsupported gloo device" in asked.stderr


def test_a_wrong_setting_of_floe_is_an_error_that_names_it(lib_dir: Path) -> None:
    done = run_python(MAKE_GROUP, preloaded(lib_dir, FLOE_SHM="maybe"))
    assert done.returncode != 0
    assert "FLOE_SHM='maybe' is not valid" in done.stderr


def test_an_interface_that_does_not_exist_is_an_error_that_names_it(lib_dir: Path) -> None:
    done = run_python(MAKE_GROUP, preloaded(lib_dir, GLOO_SOCKET_IFNAME="nosuch0"))
    assert done.returncode != 0
    assert "the network interface 'nosuch0' does not exist" in done.stderr
