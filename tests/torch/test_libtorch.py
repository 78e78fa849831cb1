"""C++ programs without Python: the example, built as its first lines say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import torch

import torch_floe
from launch import run_torchrun

EXAMPLES = Path(__file__).parents[2] / "examples"


def build(program: Path) -> None:
    libtorch, floe = (Path(module.__path__[0]) for module in (torch, torch_floe))
    command = ["ccache"] if shutil.which("ccache") else []
    command += ["c++", "-std=c++20", "-Wall", "-Werror", "-c", "all_reduce.cpp"]
    command += ["-o", f"{program}.o", "-isystem", str(libtorch / "include")]
    command += ["-I", str(floe / "include")]
    subprocess.run(command, cwd=EXAMPLES / "libtorch", check=True)
    link = ["c++", f"{program}.o", "-o", str(program)]
    for folder in (libtorch / "lib", floe / "lib"):
        link += ["-L", str(folder), f"-Wl,-rpath,{folder}"]
    subprocess.run([*link, "-lfloe_torch", "-ltorch_cpu", "-lc10"], check=True)


def test_all_reduce(tmp_path: Path) -> None:
    program = tmp_path / "all_reduce"
    build(program)
    ended = run_torchrun(2, str(program), "--no-python")
    assert ended.code == 0, ended.output
    for rank in range(2):
        assert f"rank {rank} of 2: 1 + ... + 2 = 3\n" in ended.output
    assert "libpython" not in subprocess.check_output(["ldd", str(program)], text=True)
    alone = subprocess.run([str(program)], capture_output=True, text=True)
    assert (alone.returncode, alone.stderr) == (1, "RANK is not set: start this with torchrun\n")
